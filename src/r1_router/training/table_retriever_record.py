"""A training's log, one row a report of the trainer, and its picture: hit@k on held-out questions as it trains."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from r1_router import jsonl
from r1_router.files import write_atomically
from r1_router.retrieval_quality import DEPTHS

Row = dict[str, Any]
HITS = tuple(f"hit@{k}" for k in DEPTHS)
COLOURS = ("#0f766e", "#b35c00", "#8250a8")
WIDTH, HEIGHT, MARGIN, LINE = 480, 240, 40, 14


class Record(TrainerCallback):
    """Appends to `log` and redraws `curve`; rows after the step that a run goes on from are dropped."""

    def __init__(self, log: Path, curve: Path, step: int, on_row: Callable[[Row], None]) -> None:
        self._log, self._curve, self._on_row = log, curve, on_row
        jsonl.repair_tail(log)
        self.rows: list[Row] = [row for row in jsonl.read(log) if row["step"] <= step] if step else []
        jsonl.rewrite(log, self.rows)
        self._started = time.monotonic() - (self.rows[-1]["seconds"] if self.rows else 0.0)

    def on_log(self, args: Any, state: Any, control: Any, logs: Mapping[str, float], **_: Any) -> None:
        """A row with the loss, or with the held-out hits; the trainer's closing summary is left out."""
        measures = {"loss": logs["loss"]} if "loss" in logs else _hits(logs)
        if not measures:
            return
        seconds = round(time.monotonic() - self._started, 1)
        row = {"step": state.global_step, "planned": state.max_steps, "seconds": seconds, **measures}
        self.rows.append(row)
        jsonl.append(self._log, row)
        self._on_row(row)
        if HITS[0] in row:
            write_atomically(self._curve, curve([row for row in self.rows if HITS[0] in row]))

    @property
    def last_hits(self) -> dict[str, float]:
        """The held-out hits of the last evaluation; empty where there was none."""
        rows = [row for row in self.rows if HITS[0] in row]
        return {name: rows[-1][name] for name in HITS} if rows else {}


def curve(rows: Sequence[Mapping[str, Any]]) -> str:
    """An SVG of the hits over the steps, each line with its name and last value beside its end."""
    last = max(rows[-1]["step"], 1)
    parts = [_grid(share) for share in (0, 0.25, 0.5, 0.75, 1)]
    free = 0.0  # names of lines that end together stand under one another
    for name, colour in reversed(list(zip(HITS, COLOURS, strict=True))):
        points = " ".join(f"{_x(row['step'] / last):.1f},{_y(row[name]):.1f}" for row in rows)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        at = max(_y(rows[-1][name]) + 4, free)
        free = at + LINE
        parts.append(f'<text x="{_x(1) + 6:g}" y="{at:.1f}" fill="{colour}">{name} {rows[-1][name]:.3f}</text>')
    ends = ((_x(0), "step 0"), (_x(1) - 20, str(last)))
    parts += [f'<text x="{x:g}" y="{HEIGHT - 8}">{label}</text>' for x, label in ends]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH + 60} {HEIGHT}" font-family="sans-serif"'
    return f'{head} font-size="12"><title>hit@k on held-out questions</title>{"".join(parts)}</svg>\n'


def _grid(share: float) -> str:
    y = _y(share)
    line = f'<path d="M{_x(0):g} {y:g}H{_x(1):g}" stroke="#d0d7de"/>'
    return f'{line}<text x="{_x(0) - 8:g}" y="{y + 4:g}" text-anchor="end">{share:g}</text>'


def _x(share: float) -> float:
    return MARGIN + share * (WIDTH - 2 * MARGIN)


def _y(share: float) -> float:
    return HEIGHT - 30 - share * (HEIGHT - 45)


def _hits(logs: Mapping[str, float]) -> Row:
    found = {name: value for k, name in zip(DEPTHS, HITS, strict=True) if (value := _accuracy(logs, k)) is not None}
    return {name: round(value, 4) for name, value in found.items()}


def _accuracy(logs: Mapping[str, float], k: int) -> float | None:
    """The evaluator's figure for depth k, whatever the score function it is named after."""
    return next((value for name, value in logs.items() if name.endswith(f"_accuracy@{k}")), None)
