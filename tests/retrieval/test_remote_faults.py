"""A retrieval server that answers garbage, too slowly or not at all: tried again, then given up on till it is back."""

import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from r1_router.errors import KnowledgeBaseDown, KnowledgeBaseError
from r1_router.retrieval.remote import RemoteBase
from r1_router.types import TEXT, Query


class Crooked(ThreadingHTTPServer):
    """Answers every request with `answer(handler)`; counts them."""

    daemon_threads = True

    def __init__(self, answer: Callable[[BaseHTTPRequestHandler], None]) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                crooked.requests += 1
                answer(self)

            def do_GET(self) -> None:
                answer(self)

            def log_message(self, format: str, *args: Any) -> None:
                """Keep the test's output clean."""

        crooked = self
        self.requests = 0
        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


def sending(status: int, body: bytes) -> Callable[[BaseHTTPRequestHandler], None]:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return answer


def silent(handler: BaseHTTPRequestHandler) -> None:
    time.sleep(10)


def by_drops(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    for _ in range(100):
        handler.wfile.write(b" ")
        time.sleep(0.1)


def one_row(**changes: Any) -> bytes:
    return json.dumps({"results": [[{"id": "p0", "text": "alpha", "score": 0.5} | changes]]}).encode()


@pytest.mark.parametrize(
    "answer",
    [
        sending(200, b"<html>welcome</html>"),
        sending(200, b"\xff\xfe\x00"),
        sending(200, b"[" * 100_000),
        sending(200, b"[]"),
        sending(200, b'{"results": []}'),
        sending(200, b'{"results": [3]}'),
        sending(200, one_row(score="high")),
        sending(200, one_row(score=float("nan"))),
        sending(200, one_row(text=None)),
        sending(500, b"{}"),
        sending(503, b"busy"),
        silent,
        by_drops,
    ],
    ids=["html", "bytes", "deep", "list", "none", "number", "words", "nan", "null", "500", "503", "silent", "drops"],
)
def test_garbage_and_silence_are_retried_then_given_up(
    answer: Callable[[BaseHTTPRequestHandler], None], caplog: pytest.LogCaptureFixture
) -> None:
    crooked = Crooked(answer)
    client = RemoteBase(crooked.url, TEXT, first_wait=0.05, tries=2, timeout=0.5)
    started = time.perf_counter()
    with pytest.raises(KnowledgeBaseDown, match="serve-retriever"):
        client.search_many([Query("alpha")], 1)
    assert crooked.requests == 2 and time.perf_counter() - started < 8
    with pytest.raises(KnowledgeBaseDown):
        client.search_many([Query("alpha")], 1)
    assert crooked.requests == 3  # once known to be down it is tried once
    assert caplog.text.count("is down") == 1
    crooked.shutdown()


def test_a_base_that_is_back_is_used_again() -> None:
    answers = iter([sending(503, b""), sending(503, b""), sending(200, one_row()), sending(503, b"")])
    crooked = Crooked(lambda handler: next(answers, sending(200, one_row()))(handler))
    client = RemoteBase(crooked.url, TEXT, first_wait=0.05, tries=2)
    with pytest.raises(KnowledgeBaseDown):
        client.search_many([Query("alpha")], 1)
    for _ in range(2):  # the second meets one more fault, and has its tries again
        assert client.search_many([Query("alpha")], 1)[0][0].id == "p0"
    crooked.shutdown()


def test_a_health_answer_that_says_too_little_is_told() -> None:
    server = Crooked(sending(200, json.dumps({"sources": {TEXT.name: {"tag": TEXT.tag}}}).encode()))
    with pytest.raises(KnowledgeBaseError, match="too little"):
        len(RemoteBase(server.url, TEXT))
    server.shutdown()
