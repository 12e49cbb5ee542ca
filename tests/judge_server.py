"""A judge that compares letter by letter, by itself and behind an OpenAI-compatible server."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from r1_router.llm.content import text_of
from r1_router.types import Message

RIGHT = "<think>The same.</think>\n<verdict>right</verdict>"
WRONG = "<think>Another.</think>\n<verdict>wrong</verdict>"


def by_reply(messages: Sequence[Message]) -> str:
    """A judge that compares the text after `Reply:` with the accepted answers, letter by letter."""
    _, golds, reply = re.split("Accepted answers:\n|Reply: ", text_of(messages[-1]))
    return RIGHT if f"- {reply}\n" in golds else WRONG


class Server(ThreadingHTTPServer):
    """Judges by `by_reply`, or answers with `status`; keeps what it was sent and how many it served at once."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.status = 200
        self.bodies: list[dict[str, Any]] = []
        self.waiting = 0
        self.most = 0
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            self.server.bodies.append(body)
            self.server.waiting += 1
            self.server.most = max(self.server.most, self.server.waiting)
        threading.Event().wait(0.02)  # long enough for others to arrive
        with self.server.lock:
            self.server.waiting -= 1
        reply = json.dumps({"choices": [{"message": {"content": by_reply(body["messages"])}}]}).encode()
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, format: str, *args: Any) -> None:
        """Keep the test's output clean."""


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
