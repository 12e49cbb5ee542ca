"""A report as one HTML page: no network, no script, light or dark as the reader's system is."""

from __future__ import annotations

import html
from collections.abc import Sequence
from string import Template

from r1_router.report.layout import Report, Section, Table
from r1_router.report.style import STYLE
from r1_router.report.traces import trace_html

DEEPEST = 55
"""Percent of ink in the darkest cell of a heat table: its number stays readable in both schemes."""

LINE = 24
"""Characters up to which a cell stays on one line."""
LONG = ' class="long"'


def as_html(report: Report) -> str:
    """The page; every text from data is escaped."""
    body = [f'<p class="warning">{html.escape(warning)}</p>' for warning in report.warnings]
    body += map(_section, report.sections)
    body.append(f"<section><h2>Traces of {html.escape(report.method)}</h2>")
    body += [*map(trace_html, report.traces), "</section>"]
    return PAGE.substitute(title=html.escape(report.title), style=STYLE, body="\n".join(body))


def _section(section: Section) -> str:
    tables = "".join(map(_table, section.tables))
    if section.folded:
        tables = f"<details><summary>The figures as tables</summary>{tables}</details>"
    plots = f'<div class="plots">{"".join(section.plots)}</div>' if section.plots else ""
    note = f"<p>{html.escape(section.note)}</p>"
    return f"<section><h2>{html.escape(section.title)}</h2>{note}{plots}{tables}</section>"


def _table(table: Table) -> str:
    caption = f"<caption>{html.escape(table.caption)}</caption>" if table.caption else ""
    head = "".join(f'<th scope="col">{html.escape(column)}</th>' for column in table.columns)
    shares: Sequence[Sequence[float]] = table.shares or [()] * len(table.rows)
    body = "".join(_row(*pair) for pair in zip(table.rows, shares, strict=True))
    name = html.escape(table.caption or "table")
    return (
        f'<div class="wide" role="region" tabindex="0" aria-label="{name}"><table>{caption}'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _row(cells: Sequence[str], shares: Sequence[float]) -> str:
    first, *others = cells
    shades = [f' style="--ink: {DEEPEST * share:.0f}%"' for share in shares] or [""] * len(others)
    body = "".join(
        f"<td{shade}{LONG if len(cell) > LINE else ''}>{html.escape(cell)}</td>"
        for cell, shade in zip(others, shades, strict=True)
    )
    return f'<tr><th scope="row">{html.escape(first)}</th>{body}</tr>'


PAGE = Template("""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>$title</title>
<style>
$style</style></head><body><h1>$title</h1>
$body
</body></html>
""")
"""The policy lets a browser load and run nothing, should a text ever slip through unescaped."""
