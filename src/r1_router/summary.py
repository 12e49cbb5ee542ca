"""One method's results on one benchmark, as a few numbers: a pure function of its trajectories.

Gold hops, where the benchmark has them, stand in the question's row under `hops`: one object a hop with `source`
(a source's name), `gold_ids` (passages that hold the answer), `query` and `answer`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from r1_router.files import write_atomically
from r1_router.scoring import score, token_f1
from r1_router.types import MAX_STEPS, NONE, Step, Trajectory

HIT_DEPTH = 5
Summary = dict[str, Any]


def summarise(
    trajectories: Sequence[Trajectory], *, benchmark: str, method: str, model: str, seconds_per_question: float | None
) -> Summary:
    """Means over the questions; a failed question counts as a wrong answer. Scores lie in 0..1.

    `routing_accuracy` and `hit_at_5` are None, or lack a source, where the benchmark or the method has nothing to
    count. `seconds_per_question` is the run's wall time over its questions; many are in flight at once, so the
    questions' own times say nothing about it.
    """
    return {
        "benchmark": benchmark,
        "method": method,
        "model": model,
        "n": len(trajectories),
        "errors": sum(trajectory.error is not None for trajectory in trajectories),
        "f1_recall": _mean([recall_of(trajectory) for trajectory in trajectories]),
        "token_f1": _mean([f1_of(trajectory) for trajectory in trajectories]),
        "routing_accuracy": _mean(_routing(trajectories)),
        "hit_at_5": hit_rates(trajectories),
        "seconds_per_question": seconds_per_question,
    }


def recall_of(trajectory: Trajectory) -> float:
    """F1-Recall of one question, 0..1; a failed one scores 0."""
    return score(trajectory.answer.text, trajectory.question.answers).recall if trajectory.answer else 0.0


def f1_of(trajectory: Trajectory) -> float:
    """SQuAD token F1 of one question, 0..1; a failed one scores 0."""
    return token_f1(trajectory.answer.text, trajectory.question.answers) if trajectory.answer else 0.0


def _routing(trajectories: Sequence[Trajectory]) -> list[bool]:
    """All routing decisions; where the method routes, a failed question's are wrong."""
    if not _routes(trajectories):
        return []
    counted = [right for trajectory in trajectories for right in routed_right(trajectory)]
    missed = [False for trajectory in trajectories if trajectory.error for _ in _wanted(trajectory)]
    return [*counted, *missed] if counted else []


def routed_right(trajectory: Trajectory) -> list[bool]:
    """For each gold hop, and the stop after the last one, whether the step at its place asks just that source.

    No stop is due after as many hops as there may be steps. A method that retrieves without a plan leaves one step
    without an answer, and has nothing to count.
    """
    if not any(_planned(step) for step in trajectory.steps):
        return []
    wanted = _wanted(trajectory)
    found = [_names(step) for step in trajectory.steps] + [[]] * len(wanted)
    return [names == due for names, due in zip(found, wanted, strict=False)]


def hit_rates(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """By source, how often a step that asks the gold hop's source finds a gold passage among the first five.

    Only steps of a method that plans: one retrieval for the whole question has no gold hop of its own.
    """
    hits: dict[str, list[bool]] = {}
    for trajectory in trajectories if _routes(trajectories) else ():
        for hop, step in zip(_hops(trajectory), trajectory.steps, strict=False):
            if _planned(step) and hop.get("gold_ids") and hop["source"] in _names(step):
                ids = [passage.id for passage in step.passages if passage.source.name == hop["source"]]
                hits.setdefault(hop["source"], []).append(not set(ids[:HIT_DEPTH]).isdisjoint(hop["gold_ids"]))
    return {source: round(fmean(found), 4) for source, found in sorted(hits.items())}


def figure(value: float | None) -> str:
    """A figure as tables show it: two decimals, a dash where there is nothing to count."""
    return "-" if value is None else f"{value:.2f}"


def hits_text(summary: Summary) -> str:
    """The hit@5 of each source in a few words."""
    rates = summary["hit_at_5"].items()
    return ", ".join(f"{name.removesuffix(' retriever')} {figure(rate)}" for name, rate in rates) or "-"


def write_summary(path: Path, summary: Summary) -> None:
    """Write one summary.json, its folder included."""
    write_atomically(path, json.dumps(summary, indent=2) + "\n")


def _wanted(trajectory: Trajectory) -> list[list[str]]:
    """The source names due at each step: the gold hops', then the stop where a step is left for it."""
    due = [[hop["source"]] for hop in _hops(trajectory) if hop["source"] != NONE]
    return [*due, [NONE]][:MAX_STEPS] if due else []


def _routes(trajectories: Sequence[Trajectory]) -> bool:
    """Whether the method ever chose one source: one that always asks all of them does not route."""
    steps = [step for trajectory in trajectories for step in trajectory.steps]
    return any(_planned(step) and (step.plan.stops or len(step.plan.sources) == 1) for step in steps)


def _planned(step: Step) -> bool:
    """Whether the step was planned; one retrieval for the whole question leaves neither thought nor sub-answer."""
    return step.answer is not None or step.plan.stops or bool(step.plan.thought)


def _hops(trajectory: Trajectory) -> Sequence[Mapping[str, Any]]:
    hops: Sequence[Mapping[str, Any]] = trajectory.question.extra.get("hops") or ()
    return hops


def _names(step: Step) -> list[str]:
    return [NONE] if step.plan.stops else [source.name for source in step.plan.sources]


def _mean(values: Sequence[float]) -> float | None:
    return round(fmean(values), 4) if values else None
