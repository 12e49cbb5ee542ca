"""Tests of Ctrl-C must work in the background too, where a process ignores SIGINT, and its children with it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def heeding_ctrl_c() -> Iterator[None]:
    """This process, and those it starts, take SIGINT as at a terminal."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
