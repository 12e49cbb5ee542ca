"""One server of language models on loopback, as a child process that can be started again."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import httpx

from r1_router.errors import EngineError

POLL_SECONDS = 0.25
TAIL_CHARS = 1500


class ServerProcess:
    """Runs `command --port N` on a free port, with what it prints appended to `log`; ends when this process does."""

    def __init__(self, command: Sequence[str], log: Path, environment: Mapping[str, str]) -> None:
        self.log = log
        self._port = _free_port()
        self._command = [sys.executable, "-m", "r1_router.llm.tether", *command, "--port", str(self._port)]
        self._environment = dict(environment)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it, without waiting; Ctrl-C in the terminal does not reach it."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self._environment,
                start_new_session=True,
            )

    def ready(self) -> bool:
        """Whether it answers now."""
        try:
            return self.alive and httpx.get(f"{self.url}/health", timeout=5).status_code == httpx.codes.OK
        except httpx.HTTPError:
            return False

    def wait_ready(self, seconds: float) -> None:
        """Return once it answers; raises EngineError with the end of its log if it dies or takes too long."""
        deadline = time.monotonic() + seconds
        while not self.ready():
            if not self.alive:
                raise EngineError(f"the model server died while starting; {self.explain()}")
            if time.monotonic() > deadline:
                raise EngineError(f"the model server did not answer within {seconds:.0f} s; {self.explain()}")
            time.sleep(POLL_SECONDS)

    def explain(self) -> str:
        """The end of its log, and where the rest is."""
        text = self.log.read_text(encoding="utf-8", errors="replace") if self.log.is_file() else ""
        return f"its log {self.log} ends:\n{text[-TAIL_CHARS:].strip()}"

    def stop(self) -> None:
        """End it and wait till it has ended."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            self._process.wait()
            self._process = None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
