"""A judge that compares letter by letter, by itself and behind an OpenAI-compatible server."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from loopback import LoopbackHandler, LoopbackServer, completion, serving
from r1_router.llm.content import text_of
from r1_router.types import Message

RIGHT = "<think>The same.</think>\n<verdict>right</verdict>"
WRONG = "<think>Another.</think>\n<verdict>wrong</verdict>"


def by_reply(messages: Sequence[Message]) -> str:
    """A judge that compares the text after `Reply:` with the accepted answers, letter by letter."""
    _, golds, reply = re.split("Accepted answers:\n|Reply: ", text_of(messages[-1]))
    return RIGHT if f"- {reply}\n" in golds else WRONG


class Server(LoopbackServer):
    """Judges by `by_reply`, or answers with `status`; keeps what it was sent and how many it served at once."""

    def __init__(self) -> None:
        super().__init__(Handler)
        self.status = 200
        self.bodies: list[dict[str, Any]] = []
        self.waiting = 0
        self.most = 0
        self.lock = threading.Lock()


class Handler(LoopbackHandler):
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.received())
        with self.server.lock:
            self.server.bodies.append(body)
            self.server.waiting += 1
            self.server.most = max(self.server.most, self.server.waiting)
        threading.Event().wait(0.02)  # long enough for others to arrive
        with self.server.lock:
            self.server.waiting -= 1
        self.answer(completion(by_reply(body["messages"])), self.server.status)


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(Server()) as running:
        yield running
