"""Gathers the awaits of the moment into one call of a synchronous function.

Many questions are answered at once, each a coroutine that awaits one reply or one search at a time. An engine that
works on lists (transformers on a CPU, a FAISS index) sits behind a Batcher: whatever is awaited while it works goes
out together in its next call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from r1_router.errors import EngineError

Item = TypeVar("Item")
Result = TypeVar("Result")

GATHER_SECONDS = 0.002
"""How long a call waits for company: enough for coroutines that wake together, nothing beside a model's time."""


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting(Generic[Item]):
    item: Item
    size: Any
    outcome: asyncio.Future[Any]


class Batcher(Generic[Item, Result]):
    """Await `batcher(item)` from many coroutines; `function` sees lists of at most `max_batch` items.

    `function` runs in one thread of its own, one call at a time, and returns one result an item, in order. A result
    that is an Exception is raised where that item is awaited; what `function` itself raises, everywhere in the call.
    With a `key` (the length, say) and more waiting than fit, items near in size share a call, the largest first, but
    the one that has waited longest is always in it, so none starves.
    """

    def __init__(
        self,
        function: Callable[[list[Item]], Sequence[Result | Exception]],
        max_batch: int,
        *,
        key: Callable[[Item], Any] | None = None,
        wait: float = GATHER_SECONDS,
    ) -> None:
        self._function = function
        self._max_batch = max_batch
        self._key = key
        self._wait = wait
        self._waiting: list[_Waiting[Item]] = []
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="batcher")
        self._runner: asyncio.Task[None] | None = None

    async def __call__(self, item: Item) -> Result:
        """The function's result for `item`; cancelling the await before its call goes out takes the item off it."""
        size = self._key(item) if self._key else None
        waiting = _Waiting(item, size, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        if self._runner is None or self._runner.done():
            self._runner = asyncio.create_task(self._run())
        outcome = await waiting.outcome
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def _run(self) -> None:
        """Call after call until nobody waits. If the loop shuts down in between, whoever waits is cancelled."""
        batch: list[_Waiting[Item]] = []
        try:
            while self._waiting:
                await asyncio.sleep(self._wait)
                if batch := self._take():
                    items = [waiting.item for waiting in batch]
                    outcomes = await asyncio.get_running_loop().run_in_executor(self._thread, self._call, items)
                    for waiting, outcome in zip(batch, outcomes, strict=True):
                        if not waiting.outcome.done():
                            waiting.outcome.set_result(outcome)
        finally:
            for waiting in [*batch, *self._waiting]:
                waiting.outcome.cancel()
            self._waiting.clear()

    def _take(self) -> list[_Waiting[Item]]:
        """Remove the next batch from the queue, leaving out what was cancelled meanwhile."""
        queue = [waiting for waiting in self._waiting if not waiting.outcome.done()]
        batch = queue[: self._max_batch]
        if self._key and len(queue) > self._max_batch:
            by_size = sorted(queue, key=lambda waiting: waiting.size, reverse=True)
            start = max(0, by_size.index(queue[0]) + 1 - self._max_batch)
            batch = by_size[start : start + self._max_batch]
        self._waiting = [waiting for waiting in queue if waiting not in batch]
        return batch

    def _call(self, items: list[Item]) -> Sequence[Result | Exception]:
        """Run the function (in the worker thread) and make its failure the outcome of every item."""
        try:
            outcomes = self._function(items)
            if len(outcomes) != len(items):
                raise EngineError(f"A batched function took {len(items)} items and returned {len(outcomes)} results.")
        except Exception as error:
            return [error] * len(items)
        return outcomes
