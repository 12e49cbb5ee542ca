"""Pieces of a source over several processes, their results in order, with no process left behind by a killed one."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Generator, Iterable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

from r1_router.corpora.passages import Done, Task, write_passages
from r1_router.errors import DataError

AHEAD = 2
"""Tasks given out per worker before the oldest result is taken: it bounds what waits in memory and on the disk."""


def in_order(tasks: Iterable[Task], workers: int) -> Generator[tuple[Task, Done]]:
    """Do the tasks, `workers` at once, and give each with its result, in their order; close it when done."""
    if workers == 1:
        yield from ((task, write_passages(task)) for task in tasks)
        return
    # Spawned: a fork of a process with threads (a progress bar is one) may hang, and would keep the build's lock.
    pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _end_with_parent)
    pending: deque[tuple[Task, Future[Done]]] = deque()
    try:
        for task in tasks:
            pending.append((task, pool.submit(write_passages, task)))
            if len(pending) == AHEAD * workers:
                yield _finished(*pending.popleft())
        while pending:
            yield _finished(*pending.popleft())
    except BrokenProcessPool as error:
        raise DataError(
            "A worker was killed, perhaps for want of memory: give fewer workers; the same command goes on."
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


def _finished(task: Task, future: Future[Done]) -> tuple[Task, Done]:
    return task, future.result()


def _end_with_parent() -> None:
    """Let a worker end with the build, when that is killed, and at Ctrl-C at once."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    threading.Thread(target=_watch_parent, daemon=True).start()


def _watch_parent() -> None:
    if parent := multiprocessing.parent_process():
        parent.join()
        os._exit(1)
