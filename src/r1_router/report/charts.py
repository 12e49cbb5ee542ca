"""Plots as inline SVG: every one carries its title and its numbers as text, and takes its colours from the page.

Each is drawn 360 units wide, so that its text is as large on a phone as the text around it.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

WIDTH = 360
BAR_LEFT, BAR_RIGHT = 120, 320
"""Between them lies the scale from 0 to 1; names stand to its left, figures to its right."""
ROW, HEADING, AXIS = 20, 24, 18
LABEL_CHARS = 19
HUES = 6
NUMBER_WIDTH = 8
"""Units that a digit takes with some room, at the size the page sets."""
LEGEND_COLUMNS = 3
COLUMN_HEIGHT = 90


@dataclass(frozen=True, slots=True)
class Bar:
    """A share with its interval; one without has both ends at `value`. `hue` numbers its colour."""

    label: str
    value: float
    low: float
    high: float
    hue: int = 0


def bars(title: str, groups: Sequence[tuple[str, Sequence[Bar]]]) -> str:
    """Horizontal bars on a scale from 0 to 1, each group under its heading if it has one; intervals are thin lines."""
    parts: list[str] = []
    y = 0
    for heading, members in groups:
        if heading:
            parts.append(_text(0, y + 17, heading, "heading"))
            y += HEADING
        for bar in members:
            parts.append(_bar(bar, y))
            y += ROW
    return _figure(title, _scale(y) + "".join(parts), y + AXIS)


def stacked(title: str, names: Sequence[str], rows: Sequence[tuple[str, Sequence[int]]]) -> str:
    """A whole bar a row, parted by its counts; the legend names the parts in the bars' order."""
    parts = [_legend(number, name) for number, name in enumerate(names)]
    y = ROW * -(-len(names) // LEGEND_COLUMNS) + 6
    for label, counts in rows:
        parts.append(_text(0, y + 14, label, "heading"))
        parts.append(_parted(counts, y + ROW))
        y += 2 * ROW + 8
    return _figure(title, "".join(parts), y)


def histogram(title: str, counts: Mapping[int, int], hue: int = 0) -> str:
    """A column for each whole number from 0 to the highest: how often it came about stands on top."""
    highest, tallest = max(counts), max(counts.values())
    width = min(WIDTH / (highest + 1), 60)
    parts = []
    for number in range(highest + 1):
        count = counts.get(number, 0)
        tall = COLUMN_HEIGHT * count / tallest
        middle = (number + 0.5) * width
        parts.append(_rect(number * width + 2, ROW + COLUMN_HEIGHT - tall, width - 4, tall, f"hue{hue % HUES}"))
        parts.append(_text(middle, ROW + COLUMN_HEIGHT - tall - 4, str(count), "middle"))
        parts.append(_text(middle, ROW + COLUMN_HEIGHT + 14, str(number), "middle soft"))
    return _figure(title, "".join(parts), ROW + COLUMN_HEIGHT + ROW)


def _figure(title: str, body: str, height: float) -> str:
    name = html.escape(title)
    picture = f'<svg viewBox="0 0 {WIDTH} {height:g}" role="img"><title>{name}</title>{body}</svg>'
    return f"<figure><figcaption>{name}</figcaption>{picture}</figure>"


def _scale(height: float) -> str:
    lines = []
    for share in (0, 0.25, 0.5, 0.75, 1):
        x = _at(share)
        lines.append(f'<path class="grid" d="M{x:g} 0V{height:g}"/>')
        lines.append(_text(x, height + 14, f"{share:g}", "middle soft"))
    return "".join(lines)


def _bar(bar: Bar, y: float) -> str:
    parts = [_text(0, y + 14, bar.label)]
    parts.append(_rect(BAR_LEFT, y + 3, _at(bar.value) - BAR_LEFT, ROW - 6, f"hue{bar.hue % HUES}"))
    if bar.high > bar.low:
        low, high, middle = _at(bar.low), _at(bar.high), y + ROW / 2
        ends = "".join(f"M{x:.1f} {middle - 4:g}v8" for x in (low, high))
        parts.append(f'<path class="interval" d="M{low:.1f} {middle:g}H{high:.1f}{ends}"/>')
    parts.append(_text(BAR_RIGHT + 8, y + 14, f"{bar.value:.2f}"))
    return "".join(parts)


def _parted(counts: Sequence[int], y: float) -> str:
    parts = []
    x, total = 0.0, sum(counts)
    for number, count in enumerate(counts):
        wide = WIDTH * count / total
        if count:
            parts.append(_rect(x, y, wide, ROW, f"hue{number % HUES}"))
        if wide > NUMBER_WIDTH * len(str(count)):
            parts.append(_text(x + wide / 2, y + 14, str(count), "middle on-hue"))
        x += wide
    return "".join(parts)


def _legend(number: int, name: str) -> str:
    x, y = WIDTH / LEGEND_COLUMNS * (number % LEGEND_COLUMNS), ROW * (number // LEGEND_COLUMNS)
    return _rect(x, y + 4, 12, 12, f"hue{number % HUES}") + _text(x + 17, y + 14, name)


def _at(share: float) -> float:
    return BAR_LEFT + (BAR_RIGHT - BAR_LEFT) * share


def _rect(x: float, y: float, width: float, height: float, look: str) -> str:
    return f'<rect class="{look}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"/>'


def _text(x: float, y: float, text: str, look: str = "") -> str:
    """One line of text; headings have the whole width, other names are cut, and then whole when pointed at."""
    room = WIDTH // NUMBER_WIDTH if look == "heading" else LABEL_CHARS
    shown = html.escape(text)
    if len(text) > room:
        shown = f"{html.escape(text[: room - 1])}…<title>{shown}</title>"
    return f'<text class="{look}" x="{x:.1f}" y="{y:.1f}">{shown}</text>'
