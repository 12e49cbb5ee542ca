"""One method's results on one benchmark, as a few numbers: a pure function of its trajectories.

Gold hops, where the benchmark has them, stand in the question's row under `hops`: one object a hop with `source`
(a source's name), `gold_ids` (passages that hold the answer), `query` and `answer`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

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
    predictions = [trajectory.answer.text if trajectory.answer else "" for trajectory in trajectories]
    golds = [trajectory.question.answers for trajectory in trajectories]
    pairs = list(zip(predictions, golds, strict=True))
    return {
        "benchmark": benchmark,
        "method": method,
        "model": model,
        "n": len(trajectories),
        "errors": sum(trajectory.error is not None for trajectory in trajectories),
        "f1_recall": _mean([score(prediction, gold).recall for prediction, gold in pairs]),
        "token_f1": _mean([token_f1(prediction, gold) for prediction, gold in pairs]),
        "routing_accuracy": _mean([right for trajectory in trajectories for right in routed_right(trajectory)]),
        "hit_at_5": hit_rates(trajectories),
        "seconds_per_question": seconds_per_question,
    }


def routed_right(trajectory: Trajectory) -> list[bool]:
    """For each gold hop, and the stop after the last one, whether the step at its place asks just that source.

    No stop is due after as many hops as there may be steps. A method that retrieves without a plan leaves one step
    without an answer, and has nothing to count.
    """
    hops = _hops(trajectory)
    if not hops or not any(step.answer or step.plan.stops for step in trajectory.steps):
        return []
    wanted = [[hop["source"]] for hop in hops if hop["source"] != NONE]
    wanted = [*wanted, [NONE]][:MAX_STEPS]
    found = [_names(step) for step in trajectory.steps] + [[]] * len(wanted)
    return [names == due for names, due in zip(found, wanted, strict=False)]


def hit_rates(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """By source, how often a step that asks the gold hop's source finds a gold passage among the first five."""
    hits: dict[str, list[bool]] = {}
    for trajectory in trajectories:
        for hop, step in zip(_hops(trajectory), trajectory.steps, strict=False):
            if hop.get("gold_ids") and hop["source"] in _names(step):
                ids = [passage.id for passage in step.passages if passage.source.name == hop["source"]]
                hits.setdefault(hop["source"], []).append(not set(ids[:HIT_DEPTH]).isdisjoint(hop["gold_ids"]))
    return {source: round(fmean(found), 4) for source, found in sorted(hits.items())}


def write_summary(path: Path, summary: Summary) -> None:
    """Write one summary.json, its folder included."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")


def read_summaries(folder: Path) -> Iterator[Summary]:
    """Every summary.json under `folder`, in the order of their paths."""
    for path in sorted(folder.rglob("summary.json")):
        yield json.loads(path.read_text(encoding="utf-8"))


def _hops(trajectory: Trajectory) -> Sequence[Mapping[str, Any]]:
    hops: Sequence[Mapping[str, Any]] = trajectory.question.extra.get("hops") or ()
    return hops


def _names(step: Step) -> list[str]:
    return [NONE] if step.plan.stops else [source.name for source in step.plan.sources]


def _mean(values: Sequence[float]) -> float | None:
    return round(fmean(values), 4) if values else None
