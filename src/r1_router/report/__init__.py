"""Runs as a report: `report.md` and `report.html`, a single file that needs no network and no script."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from r1_router.files import write_atomically
from r1_router.report.as_html import as_html
from r1_router.report.as_markdown import as_markdown
from r1_router.report.layout import MethodRun, Report
from r1_router.report.paths import effort_section, losses_section, retrieval_section, routing_section
from r1_router.report.scores import breakdown_section, headline, methods_section, slices
from r1_router.report.traces import instructive

__all__ = ["MethodRun", "headline", "html_page", "instructive", "markdown", "slices", "write_report"]

SECTIONS = (methods_section, losses_section, breakdown_section, routing_section, retrieval_section, effort_section)


def write_report(folder: Path, benchmark: str, runs: Sequence[MethodRun]) -> Path:
    """Write both files into `folder`; returns the HTML one's path. The first run is the one whose traces are shown.

    Half a surrogate pair, which JSON can hold and UTF-8 cannot, becomes a question mark.
    """
    report = _compose(benchmark, runs)
    write_atomically(folder / "report.md", as_markdown(report).encode("utf-8", "replace"))
    page = folder / "report.html"
    write_atomically(page, as_html(report).encode("utf-8", "replace"))
    return page


def markdown(benchmark: str, runs: Sequence[MethodRun]) -> str:
    """The report as Markdown."""
    return as_markdown(_compose(benchmark, runs))


def html_page(benchmark: str, runs: Sequence[MethodRun]) -> str:
    """The report as one page."""
    return as_html(_compose(benchmark, runs))


def _compose(benchmark: str, runs: Sequence[MethodRun]) -> Report:
    summary, trajectories = runs[0]
    return Report(
        title=f"{benchmark}, {len(trajectories)} questions",
        warnings=tuple(_warnings(runs)),
        sections=tuple(section for make in SECTIONS if (section := make(runs))),
        method=summary["method"],
        traces=tuple(instructive(trajectories)),
    )


def _warnings(runs: Sequence[MethodRun]) -> Iterator[str]:
    """What a reader must know before setting methods side by side."""
    asked: dict[str, set[frozenset[tuple[str, str]]]] = {}
    for summary, trajectories in runs:
        questions = frozenset((trajectory.question.id, trajectory.question.text) for trajectory in trajectories)
        asked.setdefault(summary["benchmark"], set()).add(questions)
    if any(len(different) > 1 for different in asked.values()):
        yield "The methods were not asked the same questions, and their figures differ for that reason too."
