"""One run as a report: `report.md` and `report.html`, a single file that needs no network and follows light or dark."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from string import Template

from r1_router.files import write_atomically
from r1_router.intervals import Interval, bootstrap
from r1_router.summary import Summary, f1_of, figure, hits_text, recall_of
from r1_router.types import Trajectory

SEED = 0
TRACES = 10
PASSAGE_CHARS = 160
SLICES = ("n_hops", "wording", "kind")
"""Keys of a question's row that the report breaks scores down by, where they are there."""


MethodRun = tuple[Summary, Sequence[Trajectory]]
"""One method's summary on one benchmark and the trajectories it sums up."""


def write_report(folder: Path, benchmark: str, runs: Sequence[MethodRun]) -> Path:
    """Write both files into `folder`; returns the HTML one's path."""
    write_atomically(folder / "report.md", markdown(benchmark, runs))
    page = folder / "report.html"
    write_atomically(page, html_page(benchmark, runs))
    return page


def markdown(benchmark: str, runs: Sequence[MethodRun]) -> str:
    """The headline table and the slices of the first method, as GitHub reads them."""
    summary, trajectories = runs[0]
    lines = [f"# {benchmark}, {len(trajectories)} questions", "", *_markdown_table(HEADLINE, headline(runs))]
    for key, rows in slices(trajectories):
        lines += ["", f"## {summary['method']} by {key}", "", *_markdown_table((key, *SLICE_COLUMNS), rows)]
    return "\n".join(lines) + "\n"


HEADLINE = ("method", "F1-Recall", "token F1", "routing", "hit@5", "s / question", "failed")
SLICE_COLUMNS = ("questions", "F1-Recall", "token F1")


def headline(runs: Sequence[MethodRun]) -> list[tuple[str, ...]]:
    """A row a method; scores with their 95% bootstrap intervals over questions."""
    return [
        (
            summary["method"],
            _interval(trajectories, recall_of),
            _interval(trajectories, f1_of),
            figure(summary["routing_accuracy"]),
            hits_text(summary),
            figure(summary["seconds_per_question"]),
            str(summary["errors"]),
        )
        for summary, trajectories in runs
    ]


def slices(trajectories: Sequence[Trajectory]) -> Iterator[tuple[str, list[tuple[str, ...]]]]:
    """(key, rows) for each key of SLICES that every question has."""
    for key in SLICES:
        if not all(key in trajectory.question.extra for trajectory in trajectories):
            continue
        rows: list[tuple[str, ...]] = []
        for value in sorted({trajectory.question.extra[key] for trajectory in trajectories}):
            part = [item for item in trajectories if item.question.extra[key] == value]
            rows.append((str(value), str(len(part)), _interval(part, recall_of), _interval(part, f1_of)))
        yield key, rows


def instructive(trajectories: Sequence[Trajectory]) -> list[Trajectory]:
    """Up to ten trajectories worth reading: those with most steps, wrong and right ones in turn."""
    by_steps = sorted(trajectories, key=lambda item: -len(item.steps))
    wrong = [item for item in by_steps if recall_of(item) < 1]
    right = [item for item in by_steps if recall_of(item) == 1]
    half = TRACES // 2
    return [*wrong[: TRACES - min(half, len(right))], *right[: TRACES - min(half, len(wrong))]]


def html_page(benchmark: str, runs: Sequence[MethodRun]) -> str:
    """The page; every text from data is escaped."""
    summary, trajectories = runs[0]
    method = html.escape(summary["method"])
    body = [_bars(runs), _html_table(HEADLINE, headline(runs))]
    for key, rows in slices(trajectories):
        body.append(f"<h2>{method} by {html.escape(key)}</h2>")
        body.append(_html_table((key, *SLICE_COLUMNS), rows))
    body.append(f"<h2>Traces of {method}</h2>")
    body += [_trace(trajectory) for trajectory in instructive(trajectories)]
    title = html.escape(f"{benchmark}, {len(trajectories)} questions")
    return PAGE.substitute(title=title, body="\n".join(body))


def _bars(runs: Sequence[MethodRun]) -> str:
    """A bar a method: mean F1-Recall, with the interval as a thin line over it."""
    rows = []
    for summary, trajectories in runs:
        at = bootstrap([recall_of(item) for item in trajectories], SEED)
        rows.append(
            f'<div class="bar"><span>{html.escape(summary["method"])}</span><div><i style="width:{at.mean:.1%}"></i>'
            f'<b style="left:{at.low:.1%};width:{at.high - at.low:.1%}"></b></div><span>{at.mean:.2f}</span></div>'
        )
    return "<h2>F1-Recall</h2>" + "".join(rows)


def _trace(trajectory: Trajectory) -> str:
    mark = "right" if recall_of(trajectory) == 1 else "wrong"
    parts = [f'<details class="{mark}"><summary>{html.escape(trajectory.question.text)}</summary><ol>']
    for step in trajectory.steps:
        sources = ", ".join(source.name for source in step.plan.sources) or "none"
        parts.append(f"<li><em>{html.escape(step.plan.thought)}</em><br>{html.escape(step.plan.query)}")
        parts.append(f" <code>{html.escape(sources)}</code>")
        if step.passages:
            parts.append(f"<small>{html.escape(step.passages[0].text[:PASSAGE_CHARS])}</small>")
        parts.append(f"<br>= {html.escape(step.answer.text)}</li>" if step.answer else "</li>")
    answer = trajectory.answer.text if trajectory.answer else f"failed: {trajectory.error}"
    gold = trajectory.question.answers
    wanted = str(gold[0]) if isinstance(gold, list | tuple) and gold else str(gold)
    parts.append(f"</ol><p>answer <strong>{html.escape(answer)}</strong>, gold {html.escape(wanted)}</p></details>")
    return "".join(parts)


def _interval(trajectories: Sequence[Trajectory], value: Callable[[Trajectory], float]) -> str:
    at: Interval = bootstrap([value(item) for item in trajectories], SEED)
    return f"{at.mean:.3f} [{at.low:.3f}, {at.high:.3f}]"


def _markdown_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [columns, ["---"] * len(columns), *rows]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]


def _html_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{html.escape(column)}</th>" for column in columns)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


PAGE = Template("""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>$title</title>
<style>
:root { color-scheme: light dark; --line: color-mix(in srgb, currentColor 20%, transparent); --ink: #2f6fb5; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; margin: 1rem 0; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid var(--line); }
.bar { display: grid; grid-template-columns: 10rem 1fr 3rem; gap: .6rem; align-items: center; margin: .25rem 0; }
.bar div { position: relative; height: 1rem; background: var(--line); border-radius: 3px; }
.bar i, .bar b { position: absolute; left: 0; top: 0; height: 100%; background: var(--ink); border-radius: 3px; }
.bar b { top: 45%; height: 10%; background: currentColor; }
details { border-left: 3px solid #3a9c5c; padding: .2rem .8rem; margin: .5rem 0; }
details.wrong { border-color: #c2503f; }
small { display: block; opacity: .7; } code { font-size: .85em; opacity: .8; } li { margin: .3rem 0; }
</style></head><body><h1>$title</h1>
$body
</body></html>
""")
