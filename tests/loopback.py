"""What the tests' model servers have in common: HTTP on loopback, chat completions, a thread that serves them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar


class LoopbackServer(ThreadingHTTPServer):
    """Listens on a free port; `url` is what an OpenAI-compatible client is given."""

    daemon_threads = True

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"


AnyServer = TypeVar("AnyServer", bound=LoopbackServer)


class LoopbackHandler(BaseHTTPRequestHandler):
    """Reads what was sent and answers with bytes; says nothing on the terminal."""

    def received(self) -> bytes:
        """The request's body; less than it was to have where its sender was killed."""
        return self.rfile.read(int(self.headers["Content-Length"]))

    def answer(self, payload: bytes, status: int = 200) -> None:
        """Send `payload` to whoever is still there."""
        self.send_response(status)
        self.send_header("Content-Length", str(len(payload)))
        try:
            self.end_headers()
            self.wfile.write(payload)
        except OSError:
            return  # the one who asked was killed meanwhile

    def log_message(self, format: str, *args: Any) -> None:
        """Keep the test's output clean."""


def completion(text: str, **usage: int) -> bytes:
    """A chat's reply as OpenAI-compatible servers send it."""
    return json.dumps({"choices": [{"message": {"content": text}}], "usage": usage}).encode()


@contextmanager
def serving(server: AnyServer) -> Iterator[AnyServer]:
    """The server in a thread of its own, closed at the end."""
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
