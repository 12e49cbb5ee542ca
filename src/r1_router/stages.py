"""Staged runs: which file each stage reads and writes, and running one stage over a benchmark.

    results/{model}/r1_router_steps/{benchmark}_{method}.step{n}.jsonl             after the model's stage n
    results/{model}/r1_router_steps/{benchmark}_{method}.step{n}.retrieved.jsonl   after the search that follows it
    results/{model}/{benchmark}_{method}{max_steps}.jsonl                          after the last stage

A stage that was cut short goes on where it stopped; questions that failed in it are tried again. One that failed in a
stage before is passed on with its reason, so that the last file holds a record of every question.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from r1_router import console, jsonl
from r1_router.config import Config
from r1_router.deployment import Deployment
from r1_router.errors import ConfigError, DataError
from r1_router.idle import Idle
from r1_router.methods.staged import model_stage, retrieval_stage
from r1_router.questions import results_name
from r1_router.results import is_through, open_note, read_note, result_path, write_note
from r1_router.run import run_questions
from r1_router.types import LLM, Method, Question, Retriever, Source, Trajectory

ROUTED = "r1-router"


@dataclass(frozen=True, slots=True)
class Files:
    """The files of one staged run."""

    config: Config
    benchmark: str
    method: str

    def planned(self, number: int) -> Path:
        return self._step(f"step{number}")

    def retrieved(self, number: int) -> Path:
        return self._step(f"step{number}.retrieved")

    def final(self) -> Path:
        """The published name has the number of steps at its end: `r1-router3`."""
        return self._named(f"{self.method}{self.config.max_steps}")

    def _step(self, end: str) -> Path:
        whole = self._named(self.method)
        return whole.parent / "r1_router_steps" / f"{whole.stem}.{end}.jsonl"

    def _named(self, method: str) -> Path:
        return result_path(self.config.results_dir, self.config.llm.name, self.benchmark, method)


def generate(deployment: Deployment, benchmark: str, method: str, number: int, *, fresh: bool = False) -> Path:
    """The model's stage `number` over all questions; gives the file written, `fresh` as in a whole run."""
    files = _files(deployment, benchmark, method, number, deployment.config.max_steps)
    before = _read(files.retrieved(number - 1), deployment, method) if number else {}
    target = files.final() if number == deployment.config.max_steps else files.planned(number)
    questions = deployment.questions(benchmark)
    _require_all(questions, before if number else {question.id for question in questions}, files.retrieved(number - 1))
    stage = _passing_on(model_stage(deployment.settings(method), number, before), before)
    idle = dict.fromkeys(deployment.sources(), Idle())
    _run(deployment, method, stage, questions, target, lambda: (deployment.llm(method), idle), fresh=fresh)
    return target


def retrieve(deployment: Deployment, benchmark: str, method: str, number: int, *, fresh: bool = False) -> Path:
    """The search after the model's stage `number`; gives the file written, `fresh` as in a whole run."""
    files = _files(deployment, benchmark, method, number, deployment.config.max_steps - 1)
    before = _read(files.planned(number), deployment, method)
    questions = deployment.questions(benchmark)
    _require_all(questions, before, files.planned(number))
    stage = _passing_on(retrieval_stage(deployment.settings(method), before), before)
    target = files.retrieved(number)
    _run(deployment, method, stage, questions, target, lambda: (Idle(), deployment.knowledge_bases()), fresh=fresh)
    return target


def _files(deployment: Deployment, benchmark: str, method: str, number: int, last: int) -> Files:
    if deployment.config.variant(method).method != ROUTED:
        raise ConfigError(
            f"--method: only {ROUTED} and its variants run in stages, not {method!r}; use `r1-router run`."
        )
    if not 0 <= number <= last:
        raise ConfigError(f"--step: {number} is none of the steps here, 0 to {last}.")
    return Files(deployment.config, results_name(benchmark), method)


def _read(path: Path, deployment: Deployment, method: str) -> dict[str, Trajectory]:
    """What the stage before has written, by question; raises ConfigError where other settings made it."""
    if not path.is_file():
        raise DataError(f"no file {path}: run the stage before this one first.")
    if read_note(path).settings:  # a file of the reference has no note
        open_note(path, deployment.fingerprint(method))
    jsonl.repair_tail(path)
    rows = (Trajectory.from_json(row, deployment.sources()) for row in jsonl.read(path))
    return {item.question.id: item for item in rows}


def _passing_on(stage: Method, before: Mapping[str, Trajectory]) -> Method:
    """The stage, with the questions that failed in the stage before passed on as they are."""

    async def passed_on(question: Question, llm: LLM, retrievers: Mapping[Source, Retriever]) -> Trajectory:
        failed = before.get(question.id)
        if failed is not None and failed.error is not None:
            return Trajectory(question, error=failed.error)
        return await stage(question, llm, retrievers)

    return passed_on


def _require_all(questions: Sequence[Question], done: Mapping[str, Trajectory] | set[str], path: Path) -> None:
    """A stage starts when the one before is through: a question it lacks would be lost."""
    missing = sum(question.id not in done for question in questions)
    failed = sum(item.error is not None for item in done.values()) if isinstance(done, Mapping) else 0
    if missing or failed == len(questions):
        raise DataError(f"{path}: {missing} questions are not there and {failed} failed; run the stage before again.")


def _run(
    deployment: Deployment,
    method: str,
    stage: Method,
    questions: Sequence[Question],
    path: Path,
    load: Callable[[], tuple[LLM, Mapping[Source, Retriever]]],
    *,
    fresh: bool,
) -> None:
    """One stage over all questions with a bar; raises KeyboardInterrupt when it was stopped by one.

    A stage that is through loads nothing: a run that is started again comes to where it stopped at once.
    """
    write_note(path, open_note(path, deployment.fingerprint(method), replace_others=fresh))
    if is_through(path, questions, deployment.sources()):
        return
    llm, retrievers = load()
    with console.run_bar(path.stem) as show:
        outcome = run_questions(
            stage, questions, llm, retrievers, path=path, concurrency=deployment.config.concurrency, on_progress=show
        )
    console.print_failures(outcome.trajectories)
    if outcome.interrupted:
        raise KeyboardInterrupt
