"""A real HTTP server on loopback that serves files, and misbehaves when told to."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SHORT = 10
"""Bytes that a server which understates the length announces."""


class FaultyServer(ThreadingHTTPServer):
    """Serves `files` by path. The next faults come from `faults`, then `always` ("" is none); requests are kept.

    drop: half of the body, then the end. stall: half of the body, then nothing until `go_on`. reset: no answer at all.
    busy: 503. short, long: a wrong Content-Length. wrong: other bytes of the right length. elsewhere: a partial answer
    that starts at another byte. whole: ranges are not known.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files: dict[str, bytes] = {}
        self.moved: dict[str, str] = {}
        self.faults: list[str] = []
        self.always = ""
        self.requests: list[tuple[str, str]] = []
        self.go_on = threading.Event()

    def url(self, path: str = "") -> str:
        return f"http://127.0.0.1:{self.server_port}/{path}"

    @property
    def ranges(self) -> list[str]:
        """The Range header of each request so far, "" where there was none."""
        return [asked for _, asked in self.requests]


class _Handler(BaseHTTPRequestHandler):
    server: FaultyServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path, asked = self.path.removeprefix("/"), self.headers.get("Range", "")
        self.server.requests.append((path, asked))
        fault = self.server.faults.pop(0) if self.server.faults else self.server.always
        if fault == "reset":
            self.close_connection = True
        elif fault == "busy":
            self._head(503, 0)
        elif path in self.server.moved:
            self._head(302, 0, {"Location": self.server.moved[path]})
        elif path not in self.server.files:
            self._head(404, 0)
        else:
            self._send(self.server.files[path], asked, fault)

    def _send(self, body: bytes, asked: str, fault: str) -> None:
        start = int(found[1]) if (found := re.fullmatch(r"bytes=(\d+)-", asked)) and fault != "whole" else 0
        if start >= len(body) > 0:
            self._head(416, 0)
            return
        rest = b"?" * (len(body) - start) if fault == "wrong" else body[start:]
        length = {"short": SHORT, "long": len(rest) + 100}.get(fault, len(rest))
        first = 0 if fault == "elsewhere" else start
        extra = {"Content-Range": f"bytes {first}-{len(body) - 1}/{len(body)}"} if start else {}
        self._head(206 if start else 200, length, extra)
        if fault in ("drop", "stall"):
            rest = rest[: (len(rest) + 1) // 2]
        self.wfile.write(rest)
        self.wfile.flush()
        if fault == "stall":
            self.server.go_on.wait(60)
        self.close_connection = True

    def _head(self, status: int, length: int, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(length), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Keep the test's output clean."""


@contextmanager
def serving() -> Iterator[FaultyServer]:
    """A running server, closed at the end."""
    server = FaultyServer()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.go_on.set()
        server.shutdown()
        server.server_close()
