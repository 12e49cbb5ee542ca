"""Gold hops, read from a question's row, and what a trajectory's steps did about them.

They stand under `hops`: one object a hop with `source` (a source's name; the OTT-QA world writes `kb`: text, image or
table), `gold_ids` (passages, of which one is enough) and perhaps the hop's `answer`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from r1_router.errors import DataError
from r1_router.types import IMAGE, MAX_STEPS, NONE, TABLE, TEXT, Question, Step, Trajectory

_BASES = {"text": TEXT.name, "image": IMAGE.name, "table": TABLE.name}


@dataclass(frozen=True, slots=True)
class GoldHop:
    """One hop of the gold path; `answer` and `query`, its sub-question, are None where the benchmark gives none."""

    source: str
    ids: frozenset[str]
    answer: str | None
    query: str | None = None


def gold_hops(question: Question) -> tuple[GoldHop, ...]:
    """The question's gold path without the stop at its end; empty where the benchmark gives none, or just a number."""
    rows = question.extra.get("hops")
    hops = (_hop(question, hop) for hop in rows) if isinstance(rows, list | tuple) else ()
    return tuple(hop for hop in hops if hop.source != NONE)


def due(question: Question) -> list[str]:
    """The source due at each step: those of the gold hops, then the stop where a step is left for it."""
    names = [hop.source for hop in gold_hops(question)]
    return [*names, NONE][:MAX_STEPS] if names else []


def asked(step: Step) -> list[str]:
    """The names of the sources that a step asks, or just `none` where it stops."""
    return [NONE] if step.plan.stops else [source.name for source in step.plan.sources]


def planned(step: Step) -> bool:
    """Whether the step was planned; one retrieval for the whole question leaves neither thought nor sub-answer."""
    return step.answer is not None or step.plan.stops or bool(step.plan.thought)


def routes(trajectories: Sequence[Trajectory]) -> bool:
    """Whether the method ever chose one source: one that always asks all of them does not route."""
    steps = [step for trajectory in trajectories for step in trajectory.steps]
    return any(planned(step) and (step.plan.stops or len(step.plan.sources) == 1) for step in steps)


def hops_with_steps(trajectory: Trajectory, routed: bool) -> Iterator[tuple[GoldHop, Sequence[Step]]]:
    """Each gold hop with the steps it is looked for in.

    A method that routes is held to the hops place by place: its first step to the first hop, and so on. One that
    always asks the same made no such choice, and a hop is looked for in all of its steps.
    """
    for place, hop in enumerate(gold_hops(trajectory.question)):
        yield hop, trajectory.steps[place : place + 1] if routed else trajectory.steps


def gold_places(step: Step, hop: GoldHop) -> list[int]:
    """Where the hop's gold passages stand among those of its source, counted from 1."""
    ids = [passage.id for passage in step.passages if passage.source.name == hop.source]
    return [place for place, id_ in enumerate(ids, start=1) if id_ in hop.ids]


def _hop(question: Question, hop: Any) -> GoldHop:
    name = (hop.get("source") or _BASES.get(hop.get("kb", ""))) if isinstance(hop, Mapping) else None
    if name is None:
        raise DataError(f"question {question.id}: a hop needs a 'source', or text, image or table as 'kb': {hop!r}.")
    return GoldHop(name, frozenset(hop.get("gold_ids") or ()), hop.get("answer"), hop.get("query"))
