"""The Batcher: what is awaited together goes out together, and every await ends."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from r1_router.batcher import Batcher
from r1_router.errors import EngineError


class Doubler:
    """Doubles numbers, slowly if asked; negative ones fail alone; keeps the batches it was given."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.batches: list[list[int]] = []
        self.threads: set[int] = set()
        self._seconds = seconds

    async def called(self) -> None:
        """Until a call is under way."""
        while not self.batches:
            await asyncio.sleep(0.001)

    def __call__(self, items: list[int]) -> list[int | Exception]:
        self.batches.append(items)
        self.threads.add(threading.get_ident())
        time.sleep(self._seconds)
        return [2 * item if item >= 0 else ValueError(f"{item} is negative") for item in items]


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), timeout=10))


async def gather(batcher: Batcher[int, int], items: Sequence[int]) -> list[int | BaseException]:
    return await asyncio.gather(*map(batcher, items), return_exceptions=True)


def test_awaits_of_one_turn_share_a_call_in_a_thread_of_its_own() -> None:
    double = Doubler()

    async def test() -> None:
        assert await gather(Batcher(double, 8), [1, 2, 3]) == [2, 4, 6]

    run(test)
    assert double.batches == [[1, 2, 3]]
    assert threading.get_ident() not in double.threads


def test_no_call_is_larger_than_max_batch() -> None:
    double = Doubler()

    async def test() -> None:
        assert await gather(Batcher(double, 2), range(5)) == [0, 2, 4, 6, 8]

    run(test)
    assert double.batches == [[0, 1], [2, 3], [4]]


def test_what_comes_while_a_call_runs_goes_out_together_in_the_next() -> None:
    double = Doubler(seconds=0.2)

    async def test() -> None:
        batcher = Batcher(double, 8)
        late: list[asyncio.Task[int]] = []
        first = asyncio.create_task(batcher(0))
        await double.called()
        for item in (1, 2, 3):
            late.append(asyncio.create_task(batcher(item)))
            await asyncio.sleep(0)
        assert [await first, *await asyncio.gather(*late)] == [0, 2, 4, 6]

    run(test)
    assert double.batches == [[0], [1, 2, 3]]
    assert len(double.threads) == 1


def test_one_items_failure_is_its_own() -> None:
    async def test() -> None:
        one, bad, three = await gather(Batcher(Doubler(), 8), [1, -2, 3])
        assert (one, three) == (2, 6)
        assert isinstance(bad, ValueError)

    run(test)


def fail(items: list[int]) -> list[int]:
    raise OSError("no disk")


def stop(items: list[int]) -> list[int]:
    raise StopIteration


def lose_one(items: list[int]) -> list[int]:
    return items[1:]


@pytest.mark.parametrize(("function", "error"), [(fail, OSError), (stop, RuntimeError), (lose_one, EngineError)])
def test_a_calls_failure_reaches_every_await_and_the_next_call_works(
    function: Callable[[list[int]], list[int]], error: type[Exception]
) -> None:
    calls = iter([function, list, list])

    async def test() -> None:
        batcher: Batcher[int, int] = Batcher(lambda items: next(calls)(items), 8)
        outcomes = await gather(batcher, [1, 2, 3])
        assert [type(outcome) for outcome in outcomes] == [error] * 3
        assert await batcher(4) == 4

    run(test)


def test_a_cancelled_await_leaves_the_queue_and_disturbs_no_other() -> None:
    double = Doubler(seconds=0.2)

    async def test() -> None:
        batcher = Batcher(double, 8)
        running = [asyncio.create_task(batcher(item)) for item in (1, 2)]
        await double.called()
        queued = [asyncio.create_task(batcher(item)) for item in (3, 4)]
        await asyncio.sleep(0)
        running[0].cancel()
        queued[0].cancel()
        assert await running[1] == 4
        assert await queued[1] == 8
        assert running[0].cancelled()
        assert queued[0].cancelled()

    run(test)
    assert double.batches == [[1, 2], [4]]


def test_a_batcher_outlives_an_event_loop_that_ended_amid_a_call() -> None:
    batcher = Batcher(Doubler(seconds=0.3), 1)

    async def cut_short() -> None:
        await asyncio.wait_for(asyncio.gather(batcher(1), batcher(2)), timeout=0.02)

    async def test() -> None:
        assert await batcher(3) == 6

    with pytest.raises(TimeoutError):
        asyncio.run(cut_short())
    run(test)


def test_sizes_near_each_other_share_a_call_and_the_oldest_is_always_in_it() -> None:
    double = Doubler()

    async def test() -> None:
        await gather(Batcher(double, 2, key=lambda item: item), [1, 9, 8, 7, 2])

    run(test)
    assert double.batches == [[2, 1], [9, 8], [7]]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(-3, 50), max_size=30), st.integers(1, 7), st.booleans())
def test_no_await_is_lost_or_mixed_up(items: list[int], max_batch: int, sized: bool) -> None:
    double = Doubler()

    async def test() -> None:
        key = (lambda item: item) if sized else None
        outcomes = await gather(Batcher(double, max_batch, key=key, wait=0), items)
        for item, outcome in zip(items, outcomes, strict=True):
            assert isinstance(outcome, ValueError) if item < 0 else outcome == 2 * item

    run(test)
    assert sorted(item for batch in double.batches for item in batch) == sorted(items)
