"""A training log as a page of curves: one small plot for each thing to watch, no script, no package."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from r1_router import jsonl
from r1_router.files import write_atomically
from r1_router.report.style import STYLE

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 360, 190, 44, 26, 18
WINDOW = 5
"""Updates that a point of a curve is the mean of; evaluations stand as they are."""
LINES = "path.line { fill: none; stroke-width: 1.8 } " + " ".join(
    f".line.hue{hue} {{ stroke: var(--hue{hue}) }}" for hue in range(6)
)


@dataclass(frozen=True, slots=True)
class Curve:
    """A measure of the log and what it is called; each of an evaluation is a point of its own."""

    measure: str
    label: str
    evaluated: bool = False


PLOTS: tuple[tuple[str, tuple[Curve, ...]], ...] = (
    ("Reward", (Curve("reward", "sampled steps"), Curve("eval_reward", "held-out steps", evaluated=True))),
    ("Parts of routing", (Curve("reward/query", "sub-question"), Curve("reward/route", "route"))),
    ("Answers", (Curve("reward/answer", "answer reward"), Curve("watch/malformed", "malformed"))),
    ("The loop on dev questions", (
        Curve("dev/f1_recall", "F1-Recall", evaluated=True),
        Curve("dev/token_f1", "token F1", evaluated=True),
        Curve("dev/routing_accuracy", "routing", evaluated=True),
    )),
    ("Groups without spread", (Curve("frac_reward_zero_std", "share of groups"),)),
    ("Entropy of a token", (Curve("entropy", "entropy"),)),
    ("Tokens of a reply", (Curve("completions/mean_length", "mean length"),)),
    ("Norm of the gradient", (Curve("grad_norm", "norm"),)),
)  # fmt: skip


def write_curves(log: Path, page: Path) -> None:
    """Write the page of a run's log; a measure that the log lacks has no curve."""
    rows = list(jsonl.read(log))
    plots = "".join(plot(title, [(curve, points(rows, curve)) for curve in curves]) for title, curves in PLOTS)
    head = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Training</title><style>{STYLE}{LINES}</style>'
    note = f"<p>By update; a point is the mean of {WINDOW} updates, of an evaluation its own.</p>"
    write_atomically(page, f'{head}<h1>Training</h1>{note}<div class="plots">{plots}</div></html>\n')


def points(rows: Sequence[Mapping[str, float]], curve: Curve) -> list[tuple[float, float]]:
    """Update and value, in order; those of updates are means over the last WINDOW."""
    found = [(float(row["step"]), float(row[curve.measure])) for row in rows if curve.measure in row]
    if curve.evaluated:
        return found
    recent = [found[max(0, at + 1 - WINDOW) : at + 1] for at in range(len(found))]
    return [(own[-1][0], sum(value for _, value in own) / len(own)) for own in recent]


def plot(title: str, curves: Sequence[tuple[Curve, Sequence[tuple[float, float]]]]) -> str:
    """One figure of lines over a scale that holds them all; nothing where there are no points."""
    drawn = [(curve, path) for curve, path in curves if path]
    if not drawn:
        return ""
    every = [point for _, path in drawn for point in path]
    last = max(x for x, _ in every) or 1.0
    low, high = _scale([y for _, y in every])
    body = "".join(_level(value, low, high) for value in (low, (low + high) / 2, high))
    for hue, (curve, path) in enumerate(drawn):
        steps = " ".join(f"{_x(x, last):.1f} {_y(y, low, high):.1f}" for x, y in path)
        body += f'<path class="line hue{hue}" d="M{steps}"/>'
        body += "".join(
            f'<circle class="hue{hue}" cx="{_x(x, last):.1f}" cy="{_y(y, low, high):.1f}" r="2.5"/>'
            for x, y in (path if curve.evaluated else path[-1:])
        )
        body += f'<text class="hue{hue}" x="{LEFT + 105 * hue}" y="14">{html.escape(curve.label)}</text>'
    body += f'<text class="soft" x="{LEFT}" y="{HEIGHT}">0</text>'
    body += f'<text class="soft" x="{WIDTH}" y="{HEIGHT}" text-anchor="end">{last:g}</text>'
    name = html.escape(title)
    picture = f'<svg viewBox="0 0 {WIDTH} {HEIGHT + 4}" role="img"><title>{name}</title>{body}</svg>'
    return f"<figure><figcaption>{name}</figcaption>{picture}</figure>"


def _scale(values: Sequence[float]) -> tuple[float, float]:
    """From the lowest to the highest value, with room where they are the same."""
    low, high = min(values), max(values)
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _level(value: float, low: float, high: float) -> str:
    y = _y(value, low, high)
    return (
        f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH}"/><text class="soft" x="0" y="{y + 4:.1f}">{value:.3g}</text>'
    )


def _x(step: float, last: float) -> float:
    return LEFT + (WIDTH - LEFT) * step / last


def _y(value: float, low: float, high: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * (value - low) / (high - low)
