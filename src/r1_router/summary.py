"""One method's results on one benchmark, as a few numbers: a pure function of its trajectories.

`diagnosis` says more of routing and retrieval; here stand their headlines.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from r1_router.diagnosis import retrieval, routing
from r1_router.files import write_atomically
from r1_router.hops import routes
from r1_router.intervals import bootstrap
from r1_router.metrics import METRICS
from r1_router.scoring import score, token_f1
from r1_router.types import Trajectory

HIT_DEPTH = 5
SEED = 0
Summary = dict[str, Any]


def summarise(
    trajectories: Sequence[Trajectory], *, benchmark: str, method: str, model: str, seconds_per_question: float | None
) -> Summary:
    """Means over the questions; a failed question counts as a wrong answer. Scores lie in 0..1.

    `intervals` are 95% bootstrap intervals over questions, `metric_versions` those of r1_router.metrics.
    `routing_accuracy` and `hit_at_5` are None, or lack a source, where the benchmark or the method has nothing to
    count. `seconds_per_question` is the run's wall time over its questions; many are in flight at once, so the
    questions' own times say nothing about it.
    """
    choices = routing(trajectories)
    scores = {
        "f1_recall": [recall_of(trajectory) for trajectory in trajectories],
        "token_f1": [f1_of(trajectory) for trajectory in trajectories],
    }
    return {
        "benchmark": benchmark,
        "method": method,
        "model": model,
        "n": len(trajectories),
        "errors": sum(trajectory.error is not None for trajectory in trajectories),
        **{name: _mean(values) for name, values in scores.items()},
        "intervals": {name: _interval(values) for name, values in scores.items() if values},
        "metric_versions": {name: METRICS[name].version for name in scores},
        "routing_accuracy": round(choices.accuracy, 4) if choices else None,
        "hit_at_5": hit_rates(trajectories),
        "seconds_per_question": seconds_per_question,
    }


def recall_of(trajectory: Trajectory) -> float:
    """F1-Recall of one question, 0..1; a failed one scores 0."""
    return score(trajectory.answer.text, trajectory.question.answers).recall if trajectory.answer else 0.0


def f1_of(trajectory: Trajectory) -> float:
    """SQuAD token F1 of one question, 0..1; a failed one scores 0."""
    return token_f1(trajectory.answer.text, trajectory.question.answers) if trajectory.answer else 0.0


def hit_rates(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """By source, how often a step that asks the gold hop's source finds a gold passage among the first five.

    Only of a method that routes: one retrieval for the whole question has no gold hop of its own.
    """
    found = retrieval(trajectories) if routes(trajectories) else {}
    return {source: round(one.hit[HIT_DEPTH], 4) for source, one in found.items()}


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


def score_text(summary: Summary, name: str) -> str:
    """A score with its interval under it, as tables show it."""
    low, high = summary["intervals"].get(name, (None, None))
    return f"{figure(summary[name])}\n[{figure(low)}, {figure(high)}]"


def _interval(values: Sequence[float]) -> list[float]:
    at = bootstrap(values, SEED)
    return [round(at.low, 4), round(at.high, 4)]


def _mean(values: Sequence[float]) -> float | None:
    return round(fmean(values), 4) if values else None
