"""Runs a command that ends when whoever started it does: `python -m r1_router.llm.tether COMMAND ..`.

A run that is killed cannot stop its servers, and a server left over holds the memory of a GPU. But the run's end of the
pipe that is this process's standard input closes whatever kills the run; the tether sees that and takes its command
down, with all processes that the command has started.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading

GRACE_SECONDS = 10.0
"""Between asking the command to end and ending it."""


def main() -> int:
    """Run the command in a session of its own; gives its exit code."""
    process = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, start_new_session=True)
    threading.Thread(target=_end_with_input, args=(process,), daemon=True).start()
    code = process.wait()
    _signal(process, signal.SIGKILL)  # children that outlived it
    return code


def _end_with_input(process: subprocess.Popen[bytes]) -> None:
    sys.stdin.buffer.read()
    _signal(process, signal.SIGTERM)
    try:
        process.wait(GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        _signal(process, signal.SIGKILL)


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


if __name__ == "__main__":
    raise SystemExit(main())
