"""What a report is made of: sections of tables and plots over runs, and the form that its figures have as text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from r1_router.intervals import Interval, bootstrap
from r1_router.report.traces import Trace
from r1_router.summary import Summary
from r1_router.types import Trajectory

SEED = 0

MethodRun = tuple[Summary, Sequence[Trajectory]]
"""One method's summary on one benchmark and the trajectories it sums up."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text under `columns`; `shares` (0..1), where given, shade the cells after the first of each row."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str = ""
    shares: tuple[tuple[float, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Section:
    """What stands under one heading: a note on what the figures mean, the tables, and `plots` of them as markup.

    Where tables are `folded`, a page shows the plots first and the tables when asked to.
    """

    title: str
    note: str
    tables: tuple[Table, ...]
    plots: tuple[str, ...] = ()
    folded: bool = False


@dataclass(frozen=True, slots=True)
class Report:
    """All that a report says, before it takes a form; `traces` are those of `method`."""

    title: str
    warnings: tuple[str, ...]
    sections: tuple[Section, ...]
    method: str
    traces: tuple[Trace, ...]


def labels(runs: Sequence[MethodRun]) -> list[str]:
    """What tells each run: its method, with its benchmark where there are several."""
    several = len({summary["benchmark"] for summary, _ in runs}) > 1
    return [f"{summary['method']}, {summary['benchmark']}" if several else summary["method"] for summary, _ in runs]


def interval(trajectories: Sequence[Trajectory], value: Callable[[Trajectory], float]) -> Interval:
    """The mean of `value` over questions with its 95% bootstrap interval."""
    return bootstrap([value(trajectory) for trajectory in trajectories], SEED)


def interval_text(at: Interval) -> str:
    """Mean and interval as tables show them."""
    return f"{at.mean:.3f} [{at.low:.3f}, {at.high:.3f}]"


def count_text(count: int, total: int) -> str:
    """A count with its share of the total."""
    return f"{count} ({count / total:.0%})"
