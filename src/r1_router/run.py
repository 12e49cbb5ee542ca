"""Many questions at once: bounded concurrency, results appended one by one, resumed by id, failures kept as values."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from r1_router import jsonl
from r1_router.errors import DataError
from r1_router.results import resume
from r1_router.types import LLM, Method, Question, Retriever, Source, Trajectory

CONCURRENCY = 64
"""Questions in flight: enough that an engine which decodes 32 chats at once never waits for one."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is; `resumed` of the `done` questions were answered by an earlier run.

    `calls` and `malformed` count the replies of the questions done by this run, `in_flight` the questions begun.
    """

    total: int
    done: int = 0
    resumed: int = 0
    errors: int = 0
    seconds: float = 0.0
    calls: int = 0
    malformed: int = 0
    in_flight: int = 0

    @property
    def malformed_share(self) -> float:
        """Malformed replies as a share of all, 0..1."""
        return self.malformed / self.calls if self.calls else 0.0

    @property
    def rate(self) -> float:
        """Questions answered per second by this run."""
        return (self.done - self.resumed) / self.seconds if self.seconds else 0.0


OnProgress = Callable[[Progress], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run came to: trajectories in the order of the questions, without those not reached."""

    trajectories: tuple[Trajectory, ...]
    progress: Progress
    interrupted: bool = False


def run_questions(
    method: Method,
    questions: Sequence[Question],
    llm: LLM,
    retrievers: Mapping[Source, Retriever],
    *,
    path: Path,
    concurrency: int = CONCURRENCY,
    on_progress: OnProgress = lambda progress: None,
) -> Outcome:
    """Answer the questions that `path` has no answer to yet, appending one record each.

    A question that fails is recorded with its error and the run goes on; the next run tries it again, as it does one
    that was answered without a knowledge base that was down. After Ctrl-C the questions in flight are given up, and the
    outcome says so. Raises DataError for a bad results file.
    """
    _require_distinct_ids(questions)
    done = resume(path, questions, tuple(retrievers))
    started = time.perf_counter()
    progress = Progress(len(questions), len(done), len(done))

    def begin() -> None:
        nonlocal progress
        progress = replace(progress, in_flight=progress.in_flight + 1, seconds=time.perf_counter() - started)
        on_progress(progress)

    def keep(trajectory: Trajectory) -> None:
        nonlocal progress
        jsonl.append(path, trajectory.to_json())
        done[trajectory.question.id] = trajectory
        progress = replace(
            progress,
            done=len(done),
            errors=progress.errors + (trajectory.error is not None),
            seconds=time.perf_counter() - started,
            calls=progress.calls + trajectory.usage.calls,
            malformed=progress.malformed + trajectory.usage.malformed,
            in_flight=progress.in_flight - 1,
        )
        on_progress(progress)

    on_progress(progress)
    waiting = iter([question for question in questions if question.id not in done])
    interrupted = False
    try:
        asyncio.run(_work(method, waiting, llm, retrievers, concurrency, begin, keep))
    except KeyboardInterrupt:
        interrupted = True
    except OSError as error:
        raise DataError(f"{path}: cannot be written ({error}); once it can, the same command goes on.") from error
    ordered = tuple(done[question.id] for question in questions if question.id in done)
    return Outcome(ordered, progress, interrupted)


async def _work(
    method: Method,
    waiting: Iterator[Question],
    llm: LLM,
    retrievers: Mapping[Source, Retriever],
    concurrency: int,
    begin: Callable[[], None],
    keep: Callable[[Trajectory], None],
) -> None:
    """`concurrency` workers, each taking the next question as soon as it is free."""

    async def worker() -> None:
        for question in waiting:
            begin()
            keep(await _answered(method, question, llm, retrievers))

    await asyncio.gather(*(worker() for _ in range(concurrency)))


async def _answered(method: Method, question: Question, llm: LLM, retrievers: Mapping[Source, Retriever]) -> Trajectory:
    try:
        return await method(question, llm, retrievers)
    except Exception as error:  # one question's failure, of whatever kind, is a value on that question
        return Trajectory(question, error=f"{type(error).__name__}: {error}")


def _require_distinct_ids(questions: Sequence[Question]) -> None:
    seen: set[str] = set()
    for question in questions:
        if not question.id or question.id in seen:
            raise DataError(f"questions: the id {question.id!r} is empty or not unique, so a run could not be resumed.")
        seen.add(question.id)
