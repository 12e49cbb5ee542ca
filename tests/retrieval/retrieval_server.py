"""A real retrieval server on a port of loopback, which can be stopped and started again."""

from __future__ import annotations

import socket
import threading
import time
from typing import Any


class LiveServer:
    """Serves `app` in a thread; a server started again has the same port."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._port = 0
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        import uvicorn

        listening = socket.create_server(("127.0.0.1", self._port))
        self._port = listening.getsockname()[1]
        self._server = uvicorn.Server(uvicorn.Config(self._app, log_level="error", timeout_graceful_shutdown=5))
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [listening]}, daemon=True)
        self._thread.start()
        while not self._server.started:
            time.sleep(0.01)

    def stop(self) -> None:
        """End it; searches in flight are answered first."""
        self._server.should_exit = True
        self._thread.join(10)
