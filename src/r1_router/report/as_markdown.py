"""A report as Markdown: the tables under their headings and the traces as plain text; plots are on the page only."""

from __future__ import annotations

import html
from collections.abc import Iterator

from r1_router.report.layout import Report, Table
from r1_router.report.traces import trace_lines


def as_markdown(report: Report) -> str:
    """The text as GitHub reads it; nothing from data is taken for markup."""
    lines = [f"# {_cell(report.title)}"]
    for warning in report.warnings:
        lines += ["", f"**{warning}**"]
    for section in report.sections:
        lines += ["", f"## {section.title}", "", section.note]
        for table in section.tables:
            lines += _table(table)
    lines += ["", f"## Traces of {_cell(report.method)}"]
    for trace in report.traces:
        lines += ["", *(f"    {line}" for line in trace_lines(trace))]
    return "\n".join(lines) + "\n"


def _table(table: Table) -> Iterator[str]:
    if table.caption:
        yield from ("", f"{_cell(table.caption)}:")
    yield ""
    for line in (table.columns, ["---"] * len(table.columns), *table.rows):
        yield "| " + " | ".join(map(_cell, line)) + " |"


def _cell(text: str) -> str:
    """The text on one line, with what would end a cell, open a tag, or make a link or a picture escaped."""
    return html.escape(" ".join(text.split()), quote=False).replace("|", "\\|").replace("](", "]\\(")
