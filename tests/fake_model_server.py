"""A stand-in for a model server's program: takes its flags, answers /health and chats, and dies when a chat says so.

    python fake_model_server.py --port N [--die-at-start] [flags that are passed over]

It echoes the last message's text; `die once MARKER` ends the process unless the file MARKER is there, and makes it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from http.server import ThreadingHTTPServer
from pathlib import Path

from loopback import LoopbackHandler, completion


class Handler(LoopbackHandler):
    def do_GET(self) -> None:
        self.answer(b"{}")

    def do_POST(self) -> None:
        body = json.loads(self.received())
        text = body["messages"][-1]["content"]
        if text in ("refuse", "too long"):
            self.send_error(400, "refused" if text == "refuse" else "longer than the context length")
            return
        if text.startswith("die once "):
            marker = Path(text.removeprefix("die once "))
            if not marker.exists():
                marker.touch()
                os._exit(1)
        if text == "die":
            os._exit(1)
        self.answer(completion(f"{body['model']} {os.getpid()} {text}", prompt_tokens=1, completion_tokens=1))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--die-at-start", action="store_true")
    args, passed_over = parser.parse_known_args()
    print("started with", *passed_over, flush=True)
    if args.die_at_start:
        sys.exit("no memory for the model")
    ThreadingHTTPServer(("127.0.0.1", args.port), Handler).serve_forever()
