"""A results file's figures together: what was odd in it, each metric with its interval, a judge's if one was asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from r1_router.metrics import Measure, measure
from r1_router.predictions import ResultsFile

if TYPE_CHECKING:
    from r1_router.judge import Judged


@dataclass(frozen=True, slots=True)
class Scorecard:
    """One results file with its measures, in the order asked for."""

    results: ResultsFile
    measures: tuple[Measure, ...]
    judged: Judged | None = None

    def lines(self) -> list[str]:
        """What a terminal shows: a line for each note, then one for each metric that applies to a question."""
        lines = [f"{note}: {count}" for note, count in self.results.notes().items()]
        lines += [f"{one.metric.label:20} {one}  n={one.n}" for one in self.measures if one.n]
        return [*lines, *str(self.judged).splitlines()] if self.judged else lines

    def to_json(self) -> dict[str, Any]:
        """The figures, unrounded, with the metrics that apply to no question too."""
        metrics = {one.metric.name: one.to_json() for one in self.measures}
        return {
            "file": str(self.results.path),
            "rows": len(self.results.predictions),
            "notes": self.results.notes(),
            "metrics": metrics | (self.judged.to_json() if self.judged else {}),
        }


def score_results(results: ResultsFile, metrics: Sequence[str], seed: int, judged: Judged | None = None) -> Scorecard:
    """Measure a results file by the named metrics, with a seeded bootstrap."""
    pairs = [prediction.pair for prediction in results.predictions]
    return Scorecard(results, tuple(measure(pairs, metrics, seed)), judged)
