"""The scores of a report: the table of methods, and F1-Recall by benchmark and by slices, methods side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from r1_router.hops import gold_hops
from r1_router.intervals import Interval
from r1_router.report.charts import Bar, bars
from r1_router.report.layout import MethodRun, Section, Table, interval, interval_text, labels
from r1_router.summary import f1_of, figure, hits_text, recall_of
from r1_router.types import Question, Trajectory

HEADLINE = ("method", "F1-Recall", "token F1", "routing", "hit@5", "s / question", "questions", "failed")
HOPS = "n_hops"
ABSENT = ""
SLICES = {HOPS: "hops", "wording": "wording", "kind": "kind", "answer_in": "place of the answer"}
"""Keys of a question's row that the report breaks scores down by, where they are there, and what it calls them.

Where a row does not say its number of hops, its gold hops do.
"""


@dataclass(frozen=True, slots=True)
class Part:
    """One value's questions: for each series the number of them and their F1-Recall, or None where it has none."""

    value: str
    cells: tuple[tuple[int, Interval] | None, ...]


@dataclass(frozen=True, slots=True)
class Breakdown:
    """F1-Recall by the values of something, for several series (methods) side by side."""

    name: str
    series: tuple[str, ...]
    parts: tuple[Part, ...]


def headline(runs: Sequence[MethodRun]) -> list[tuple[str, ...]]:
    """A row a run; scores with their 95% bootstrap intervals over questions."""
    return [
        (
            label,
            interval_text(interval(trajectories, recall_of)),
            interval_text(interval(trajectories, f1_of)),
            figure(summary["routing_accuracy"]),
            hits_text(summary),
            figure(summary["seconds_per_question"]),
            str(len(trajectories)),
            str(summary["errors"]),
        )
        for label, (summary, trajectories) in zip(labels(runs), runs, strict=True)
    ]


def methods_section(runs: Sequence[MethodRun]) -> Section:
    """The table of methods, with F1-Recall as a plot."""
    members = [
        _bar(label, interval(trajectories, recall_of), number)
        for number, (label, (_, trajectories)) in enumerate(zip(labels(runs), runs, strict=True))
    ]
    note = (
        "Means over questions, a failed one counting 0, with 95% bootstrap intervals. F1-Recall, the published metric, "
        "is the share of the gold answer's words that the answer has; token F1 also counts what it has too many. "
        "Routing is the share of right choices of a source, the stop included; hit@5 is how often a hop's gold passage "
        "is among the first five of its source."
    )
    table = Table(HEADLINE, tuple(headline(runs)))
    return Section("Methods", note, (table,), (bars("F1-Recall by method", [("", members)]),))


def breakdown_section(runs: Sequence[MethodRun]) -> Section | None:
    """F1-Recall by benchmark, if there are several, and by each slice."""
    found = [*by_benchmark(runs), *slices(runs)]
    if not found:
        return None
    plots = tuple(bars(_title(one), _groups(one)) for one in found)
    note = "How F1-Recall differs between kinds of questions; where there are few, the intervals are wide."
    return Section("Scores by kind of question", note, tuple(map(_table, found)), plots, folded=True)


def by_benchmark(runs: Sequence[MethodRun]) -> Iterator[Breakdown]:
    """The one breakdown by benchmark, where the runs are on several."""
    names = list(dict.fromkeys(summary["benchmark"] for summary, _ in runs))
    if len(names) > 1:
        methods = tuple(dict.fromkeys(summary["method"] for summary, _ in runs))
        found = {(summary["benchmark"], summary["method"]): trajectories for summary, trajectories in runs}
        parts = (Part(name, tuple(_cell(found.get((name, method), ())) for method in methods)) for name in names)
        yield Breakdown("benchmark", methods, tuple(parts))


def slices(runs: Sequence[MethodRun]) -> Iterator[Breakdown]:
    """A breakdown for each key of SLICES that every question has, and not all of them alike."""
    for key, name in SLICES.items():
        found = [_by_value(trajectories, key) for _, trajectories in runs]
        values = {value for parts in found for value in parts}
        if len(values) > 1 and ABSENT not in values:
            parts = (Part(value, tuple(_cell(one.get(value, ())) for one in found)) for value in sorted(values))
            yield Breakdown(name, tuple(labels(runs)), tuple(parts))


def _by_value(trajectories: Sequence[Trajectory], key: str) -> dict[str, list[Trajectory]]:
    parts: dict[str, list[Trajectory]] = {}
    for trajectory in trajectories:
        parts.setdefault(_value(trajectory.question, key), []).append(trajectory)
    return parts


def _value(question: Question, key: str) -> str:
    """The question's value of a key as text, or ABSENT."""
    hops = len(gold_hops(question)) if key == HOPS else 0
    return str(question.extra.get(key, hops or ABSENT))


def _cell(trajectories: Sequence[Trajectory]) -> tuple[int, Interval] | None:
    return (len(trajectories), interval(trajectories, recall_of)) if trajectories else None


def _title(breakdown: Breakdown) -> str:
    return f"F1-Recall by {breakdown.name}"


def _table(breakdown: Breakdown) -> Table:
    rows = []
    for part in breakdown.parts:
        counts = [str(cell[0]) if cell else "0" for cell in part.cells]
        questions = counts[0] if len(set(counts)) == 1 else " / ".join(counts)
        rows.append((part.value, questions, *(interval_text(cell[1]) if cell else "-" for cell in part.cells)))
    return Table((breakdown.name, "questions", *breakdown.series), tuple(rows), _title(breakdown))


def _groups(breakdown: Breakdown) -> list[tuple[str, list[Bar]]]:
    return [
        (
            f"{breakdown.name}: {part.value}",
            [
                _bar(name, cell[1], number)
                for number, (name, cell) in enumerate(zip(breakdown.series, part.cells, strict=True))
                if cell
            ],
        )
        for part in breakdown.parts
    ]


def _bar(label: str, at: Interval, hue: int) -> Bar:
    return Bar(label, at.mean, at.low, at.high, hue)
