"""The traces worth reading: which they are, and their steps as markup and as plain lines."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from r1_router.diagnosis import Stage, stages
from r1_router.hops import asked, gold_hops
from r1_router.summary import recall_of
from r1_router.types import Passage, Step, Trajectory

TRACES = 10
PASSAGES = 3
"""First passages of a step that are shown; a gold one further down is shown as well."""
PASSAGE_CHARS = 160

Gold = frozenset[tuple[str, str]]
"""The (source, id) pairs of all gold passages of a question."""


@dataclass(frozen=True, slots=True)
class Trace:
    """One trajectory to read; `stage` says how it ended, where the benchmark lets that be known."""

    trajectory: Trajectory
    stage: Stage | None

    @property
    def is_right(self) -> bool:
        return recall_of(self.trajectory) == 1

    @property
    def verdict(self) -> str:
        """How it ended, in a few words."""
        if self.is_right:
            return "right"
        if self.trajectory.error is not None:
            return "failed"
        return f"lost in {self.stage}" if self.stage else "wrong"

    @property
    def answer(self) -> str:
        """The final answer, or the error in its place."""
        return self.trajectory.answer.text if self.trajectory.answer else f"failed: {self.trajectory.error}"

    @property
    def gold(self) -> str:
        """The first of the accepted answers."""
        answers = self.trajectory.question.answers
        return str(answers[0]) if isinstance(answers, list | tuple) and answers else str(answers)


def instructive(trajectories: Sequence[Trajectory]) -> list[Trace]:
    """Up to ten traces, half of them right: those with most steps, the wrong ones of each stage of loss in turn."""
    traces = [Trace(*pair) for pair in zip(trajectories, stages(trajectories), strict=True)]
    traces.sort(key=lambda trace: -len(trace.trajectory.steps))
    right = [trace for trace in traces if trace.is_right]
    by_stage: dict[Stage | None, list[Trace]] = {}
    for trace in traces:
        if not trace.is_right:
            by_stage.setdefault(trace.stage, []).append(trace)
    wrong = [trace for row in zip_longest(*by_stage.values()) for trace in row if trace is not None]
    half = TRACES // 2
    return [*wrong[: TRACES - min(half, len(right))], *right[: TRACES - min(half, len(wrong))]]


def trace_html(trace: Trace) -> str:
    """One trace, folded under its question; every text from data is escaped."""
    question = trace.trajectory.question
    gold = frozenset((hop.source, id_) for hop in gold_hops(question) for id_ in hop.ids)
    steps = "".join(_step_html(step, gold) for step in trace.trajectory.steps)
    path = html.escape(_gold_path(trace))
    return (
        f'<details class="{"right" if trace.is_right else "wrong"}">'
        f"<summary>{html.escape(question.text)} <b>{html.escape(trace.verdict)}</b></summary>"
        f"<ol>{steps}</ol><p>answer <strong>{html.escape(trace.answer)}</strong>, gold {html.escape(trace.gold)}</p>"
        + (f"<p>gold path: {path}</p>" if path else "")
        + "</details>"
    )


def trace_lines(trace: Trace) -> Iterator[str]:
    """One trace as plain lines: the question, a line a step, the answer."""
    yield _line(f"{trace.trajectory.question.text} [{trace.verdict}]")
    for number, step in enumerate(trace.trajectory.steps, start=1):
        answer = f" = {step.answer.text}" if step.answer else ""
        yield _line(f"  {number}. {', '.join(asked(step))}: {step.plan.query}{answer}")
    yield _line(f"  answer {trace.answer}, gold {trace.gold}")
    if path := _gold_path(trace):
        yield _line(f"  gold path: {path}")


def _gold_path(trace: Trace) -> str:
    hops = gold_hops(trace.trajectory.question)
    return ", ".join(hop.source + (f" = {hop.answer}" if hop.answer else "") for hop in hops)


def _step_html(step: Step, gold: Gold) -> str:
    answer = f"<br>= {html.escape(step.answer.text)}" if step.answer else ""
    return (
        f"<li><em>{html.escape(step.plan.thought)}</em><br>{html.escape(step.plan.query)} "
        f"<code>{html.escape(', '.join(asked(step)))}</code>{_passages_html(step.passages, gold)}{answer}</li>"
    )


def _passages_html(passages: Sequence[Passage], gold: Gold) -> str:
    """The first passages and every gold one, with their places in the step."""
    lines = []
    for place, passage in enumerate(passages, start=1):
        is_gold = (passage.source.name, passage.id) in gold
        if place <= PASSAGES or is_gold:
            mark = "<b>gold</b> " if is_gold else ""
            lines.append(f'<li value="{place}">{mark}{html.escape(passage.text[:PASSAGE_CHARS])}</li>')
    return f"<ol>{''.join(lines)}</ol>" if lines else ""


def _line(text: str) -> str:
    """The text on one line, its indent kept."""
    return text[: len(text) - len(text.lstrip(" "))] + " ".join(text.split())
