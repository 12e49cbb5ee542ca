"""What went right and wrong between a question and its answer: one method's routes, retrieval, losses and costs.

All are functions of the trajectories alone; `hops` says how steps are held to the gold path.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from statistics import fmean
from typing import Any

from r1_router.hops import GoldHop, asked, due, gold_hops, gold_places, hops_with_steps, planned, routes
from r1_router.metrics import LABELS
from r1_router.scoring import score, squad_tokens
from r1_router.types import MAX_STEPS, NONE, Answer, Question, Step, Trajectory, Usage

DEPTHS = (1, 5, 10)
SHOWN = 5
"""Passages of a source that count as read: as many as the published setting shows."""
OTHER = "other"
"""The choice where it is neither one source nor none: several sources at once, or no step left to choose."""

Confusion = Mapping[tuple[str, str], int]
"""How often (gold source, chosen source) came about at one step; `none` is the stop."""


@dataclass(frozen=True, slots=True)
class Routing:
    """The choices of a method that routes, one confusion table a step."""

    steps: tuple[Confusion, ...]

    @property
    def accuracy(self) -> float:
        """The share of all choices that are the gold ones, stops included."""
        return share_right(*self.steps)


@dataclass(frozen=True, slots=True)
class Retrieval:
    """How well one source was searched, over the `n` gold hops that were asked of it; shares by depth k.

    `hit`: one of the hop's gold passages is among the first k. `recall`: mean share of its gold passages among them.
    `mrr`: mean of 1 / the first one's place, 0 where none was retrieved.
    """

    n: int
    hit: Mapping[int, float]
    recall: Mapping[int, float]
    mrr: float


@dataclass(frozen=True, slots=True)
class AnswerHits:
    """Over the `n` questions that asked a source: the share with a gold answer in words in its first k passages."""

    n: int
    hit: Mapping[int, float]


class Stage(StrEnum):
    """How a question ended: right, in an error, or by the first thing that went wrong on its gold path.

    A question with a wrong final answer is lost at its first gold hop that was not met. A hop is met where a step
    meant for it gives its answer (recall 1), however it came by it. Of the others, lost in

    - routing are those where no such step asks the hop's source, or there is none;
    - retrieval, where one does and none of the hop's gold passages is among the source's first five;
    - sub-answer, where one is, and what was read from them is wrong.

    What the benchmark or the method does not have cannot be lost: a hop without known passages counts as retrieved,
    one without a gold answer, or met by steps without answers of their own, as read. When every hop was met, or the
    method never asks a source, the question is lost in the final answer.
    """

    RIGHT = "right"
    FINAL = "final answer"
    SUB_ANSWER = "sub-answer"
    RETRIEVAL = "retrieval"
    ROUTING = "routing"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Costs:
    """Means over the `n` questions whose usage was noted; `plans` are steps that were planned, stops included.

    `usage` has the mean of everything that Usage counts, by its names. Its `seconds` run from a question's start to
    its answer, while others were in flight.
    """

    n: int
    plans: float
    usage: Mapping[str, float]


def routing(trajectories: Sequence[Trajectory]) -> Routing | None:
    """What was chosen against what was due, at every step of every gold path; None where there is no choice to judge.

    A failed question's choices, and those of a step never reached, are `other`.
    """
    if not routes(trajectories):
        return None
    tables: list[Counter[tuple[str, str]]] = [Counter() for _ in range(MAX_STEPS)]
    for trajectory in trajectories:
        for place, wanted in enumerate(due(trajectory.question)):
            tables[place][wanted, _choice(trajectory, place)] += 1
    return Routing(tuple(table for table in tables if table)) if any(tables) else None


def share_right(*tables: Confusion) -> float:
    """The share of the choices in `tables` that are the gold ones."""
    right = sum(count for table in tables for (gold, chosen), count in table.items() if gold == chosen)
    return right / sum(sum(table.values()) for table in tables)


def retrieval(trajectories: Sequence[Trajectory]) -> dict[str, Retrieval]:
    """By source, over the gold hops with known passages that were asked of it; the best of a hop's steps counts."""
    routed = routes(trajectories)
    found: dict[str, list[tuple[list[int], int]]] = {}
    for trajectory in trajectories:
        for hop, steps in hops_with_steps(trajectory, routed):
            searches = [gold_places(step, hop) for step in steps if hop.source in asked(step)]
            if hop.ids and searches:
                best = min(searches, key=lambda places: places[0] if places else float("inf"))
                found.setdefault(hop.source, []).append((best, len(hop.ids)))
    return {source: _retrieval(hops) for source, hops in sorted(found.items())}


def answer_hits(trajectories: Sequence[Trajectory]) -> dict[str, AnswerHits]:
    """By source, over the questions without gold passages that asked it; the best of a question's steps counts.

    Golds that are a range, a yes or a no are left out: almost any passage holds one.
    """
    first: dict[str, list[float]] = {}
    for trajectory in trajectories:
        wanted = _wanted_words(trajectory.question)
        for source in sorted({name for step in trajectory.steps for name in asked(step)} - {NONE}) if wanted else ():
            places = [_answer_place(step, source, wanted) for step in trajectory.steps]
            first.setdefault(source, []).append(min(places))
    return {
        source: AnswerHits(len(places), {k: fmean(place <= k for place in places) for k in DEPTHS})
        for source, places in sorted(first.items())
    }


def stages(trajectories: Sequence[Trajectory]) -> list[Stage | None]:
    """How each question ended, in order; None for one without gold hops."""
    routed = routes(trajectories)
    asks = any(searches_made(trajectory) for trajectory in trajectories)
    return [_stage(trajectory, routed, asks) if gold_hops(trajectory.question) else None for trajectory in trajectories]


def losses(trajectories: Sequence[Trajectory]) -> dict[Stage, int]:
    """The number of questions that ended in each stage; empty where none has gold hops."""
    counted = Counter(stage for stage in stages(trajectories) if stage)
    return {stage: counted[stage] for stage in Stage} if counted else {}


def costs(trajectories: Sequence[Trajectory]) -> Costs | None:
    """Mean costs; None where no usage was noted, as in the reference's records."""
    noted = [trajectory for trajectory in trajectories if trajectory.usage != Usage()]
    if not noted:
        return None
    plans = fmean(sum(map(planned, trajectory.steps)) for trajectory in noted)
    means = {one.name: fmean(getattr(trajectory.usage, one.name) for trajectory in noted) for one in fields(Usage)}
    return Costs(len(noted), plans, means)


def steps_taken(trajectory: Trajectory) -> int:
    """The steps that asked something."""
    return sum(not step.plan.stops for step in trajectory.steps)


def searches_made(trajectory: Trajectory) -> int:
    """The retrievals, one a source and step."""
    return sum(len(step.plan.sources) for step in trajectory.steps if not step.plan.stops)


def _choice(trajectory: Trajectory, place: int) -> str:
    names = asked(trajectory.steps[place]) if place < len(trajectory.steps) else []
    return names[0] if len(names) == 1 else OTHER


def _retrieval(hops: Sequence[tuple[list[int], int]]) -> Retrieval:
    """The figures of (places of gold passages, number of gold passages) pairs."""
    within = {k: [sum(place <= k for place in places) for places, _ in hops] for k in DEPTHS}
    return Retrieval(
        n=len(hops),
        hit={k: fmean(count > 0 for count in within[k]) for k in DEPTHS},
        recall={k: fmean(count / size for count, (_, size) in zip(within[k], hops, strict=True)) for k in DEPTHS},
        mrr=fmean(1 / places[0] if places else 0.0 for places, _ in hops),
    )


def _wanted_words(question: Question) -> list[str]:
    """The gold answers in the form that passages are searched for them; none where gold passages are known."""
    if any(hop.ids for hop in gold_hops(question)):
        return []
    golds = question.answers if isinstance(question.answers, list | tuple) else [question.answers]
    words = [squad_tokens(gold) for gold in golds if not isinstance(gold, Mapping)]
    return [_spaced(gold) for gold in words if not set(gold) <= LABELS]


def _answer_place(step: Step, source: str, wanted: Sequence[str]) -> float:
    """The place of the first passage of `source` that holds one of the wanted texts, counted from 1."""
    texts = [_spaced(squad_tokens(passage.text)) for passage in step.passages if passage.source.name == source]
    places = (place for place, text in enumerate(texts, start=1) if any(gold in text for gold in wanted))
    return next(places, float("inf"))


def _spaced(words: Sequence[str]) -> str:
    """The words with a space on either side, so that one text holds another only at whole words."""
    return f" {' '.join(words)} "


def _stage(trajectory: Trajectory, routed: bool, asks: bool) -> Stage:
    if trajectory.error is not None:
        return Stage.FAILED
    if _is_right(trajectory.answer, trajectory.question.answers):
        return Stage.RIGHT
    lost = [_lost(hop, steps) for hop, steps in hops_with_steps(trajectory, routed)] if asks else []
    return next((stage for stage in lost if stage), Stage.FINAL)


def _lost(hop: GoldHop, steps: Sequence[Step]) -> Stage | None:
    """What went wrong first between a hop and the steps meant for it; None where it was met."""
    if hop.answer is not None and any(_is_right(step.answer, hop.answer) for step in steps):
        return None
    searches = [step for step in steps if hop.source in asked(step)]
    if not searches:
        return Stage.ROUTING
    read = [step for step in searches if not hop.ids or any(place <= SHOWN for place in gold_places(step, hop))]
    if not read:
        return Stage.RETRIEVAL
    return Stage.SUB_ANSWER if hop.answer is not None and any(step.answer for step in read) else None


def _is_right(answer: Answer | None, gold: Any) -> bool:
    return answer is not None and score(answer.text, gold).recall == 1
