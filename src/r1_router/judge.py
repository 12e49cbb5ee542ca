"""An optional judge: a language model says whether an answer means the same as a gold, and each verdict is kept.

The figure stands beside the other metrics as `judge`. The judge's model and the digest of its wording are part of it:
figures of two judges cannot be compared. Verdicts are kept in a file beside the results, so that the same answer is
asked about once and a reader can look up what was said of it.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from r1_router.errors import EngineError
from r1_router.intervals import Interval, bootstrap
from r1_router.methods.work import RETRY_TEMPERATURE
from r1_router.metrics import spelt
from r1_router.predictions import VERDICTS_SUFFIX, ResultsFile
from r1_router.replies import BadReply
from r1_router.run import CONCURRENCY
from r1_router.scoring import exact_match
from r1_router.types import LLM, Sampling
from r1_router.verdicts import (
    Case,
    Verdict,
    case_of,
    keep_verdict,
    one_line,
    parse_verdict,
    prompt_digest,
    read_verdicts,
)

NAME = "judge"
RETRIES = 3
"""How often a malformed reply is asked for again, before the verdict counts as unreadable."""
OnProgress = Callable[[int, int], None]
"""Called with the answers asked about and their number."""


@dataclass(frozen=True, slots=True)
class Judge:
    """A language model that judges, loaded only if there is something to ask; verdicts are kept under its name `model`.

    Asked greedily whatever `sampling` says; only after a malformed reply at a temperature, lest it come again.
    """

    load: Callable[[], LLM]
    model: str
    sampling: Sampling = field(default_factory=Sampling)
    concurrency: int = CONCURRENCY


@dataclass(frozen=True, slots=True)
class Judged:
    """The share of answers judged right, over the `n` that have a verdict; `interval` is None where none has.

    `empty` answers are wrong without asking and count in `n`. Answers with an `unreadable` verdict and those that the
    engine `failed` on, `problem` being what it said first, do not: they are neither right nor wrong. `cached` verdicts
    were in the file `verdicts` before; a line taken out of it is asked about again. `denied` counts the exact matches
    that were judged wrong: where it is not near 0, the judge is not to be trusted.
    """

    model: str
    prompt: str
    verdicts: str
    n: int
    cached: int
    empty: int
    unreadable: int
    denied: int
    failed: int
    problem: str
    interval: Interval | None

    def __str__(self) -> str:
        """The figure as the other metrics stand, then what it is made of."""
        failed = f"\n  {self.failed} failed, left out and asked again next time: {self.problem}" if self.failed else ""
        return (
            f"{NAME:20} {spelt(self.interval, 100) if self.interval else '-'}  n={self.n}\n"
            f"  model {self.model}, prompt {self.prompt}, verdicts in {self.verdicts}\n"
            f"  {self.cached} cached, {self.unreadable} unreadable and left out, {self.empty} empty and so wrong\n"
            f"  {self.denied} exact matches judged wrong{failed}"
        )

    def to_json(self) -> dict[str, Any]:
        """The fields under the metric's name, the interval as mean, low and high in 0..1 like other metrics'."""
        record = asdict(self)
        interval = record.pop("interval")
        return {NAME: record | (interval or dict.fromkeys(("mean", "low", "high")))}


def judge_results(
    judge: Judge, results: ResultsFile, *, seed: int = 0, on_progress: OnProgress = lambda done, total: None
) -> Judged:
    """Judge every answer of a results file, asking only what is not kept beside it yet; alike answers are asked once.

    The engine's failure on one does not stop the others. Raises DataError where verdicts cannot be kept or read.
    """
    path = _verdicts_path(results)
    cases = {one.line: case_of(one) for one in results.predictions if one.text.strip()}
    keys = {line: case.key(judge.model) for line, case in cases.items()}
    kept = read_verdicts(path)
    waiting = {keys[line]: case for line, case in cases.items() if keys[line] not in kept}
    found: Mapping[str, Verdict | EngineError] = kept
    if waiting:
        found = kept | asyncio.run(_ask_all(judge, judge.load(), waiting, path, on_progress))
    outcomes = [found[keys[one.line]] if one.line in keys else None for one in results.predictions]
    return _judged(judge, results, outcomes, cached=sum(key in kept for key in keys.values()), seed=seed)


async def _ask_all(
    judge: Judge, llm: LLM, waiting: Mapping[str, Case], path: Path, on_progress: OnProgress
) -> dict[str, Verdict | EngineError]:
    """As many workers as the judge's concurrency, each taking the next case as soon as it is free."""
    queue = iter(waiting.items())
    said: dict[str, Verdict | EngineError] = {}

    async def worker() -> None:
        for key, case in queue:
            said[key] = outcome = await _asked(judge, llm, key, case)
            if isinstance(outcome, Verdict):
                keep_verdict(path, case, outcome, judge.model)
            on_progress(len(said), len(waiting))

    await asyncio.gather(*(worker() for _ in range(judge.concurrency)))
    return said


async def _asked(judge: Judge, llm: LLM, key: str, case: Case) -> Verdict | EngineError:
    reply = ""
    for attempt in range(1 + RETRIES):
        try:
            reply = (await llm.chat(case.messages(), sampling=_sampling(judge, key, attempt))).text
        except EngineError as error:
            return error
        right = parse_verdict(reply)
        if not isinstance(right, BadReply):
            return Verdict(right, reply)
    return Verdict(None, reply)


def _sampling(judge: Judge, key: str, attempt: int) -> Sampling:
    """Greedy first; each later draw has a seed of its own, the same in every run."""
    seed = zlib.crc32(f"{judge.sampling.seed} {key} {attempt}".encode())
    return replace(judge.sampling, temperature=RETRY_TEMPERATURE if attempt else 0.0, seed=seed, pattern="")


def _judged(
    judge: Judge, results: ResultsFile, outcomes: Sequence[Verdict | EngineError | None], *, cached: int, seed: int
) -> Judged:
    """The figure from what was said of each answer, None for an empty one."""
    failures = [outcome for outcome in outcomes if isinstance(outcome, EngineError)]
    verdicts = [outcome for outcome in outcomes if isinstance(outcome, Verdict)]
    denied = [
        exact_match(*one.pair)
        for one, said in zip(results.predictions, outcomes, strict=True)
        if isinstance(said, Verdict) and said.right is False
    ]
    empty = sum(outcome is None for outcome in outcomes)
    values = [float(verdict.right) for verdict in verdicts if verdict.right is not None] + [0.0] * empty
    return Judged(
        model=judge.model,
        prompt=prompt_digest(),
        verdicts=str(_verdicts_path(results)),
        n=len(values),
        cached=cached,
        empty=empty,
        unreadable=sum(verdict.right is None for verdict in verdicts),
        denied=sum(denied),
        failed=len(failures),
        problem=one_line(failures[0]) if failures else "",
        interval=bootstrap(values, seed) if values else None,
    )


def _verdicts_path(results: ResultsFile) -> Path:
    return results.path.with_suffix(VERDICTS_SUFFIX)
