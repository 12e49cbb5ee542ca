"""The ways to the answers: where questions are lost, what was routed where, what was found, what it cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields

from r1_router.diagnosis import (
    DEPTHS,
    OTHER,
    AnswerHits,
    Confusion,
    Retrieval,
    Stage,
    answer_hits,
    costs,
    losses,
    retrieval,
    routing,
    searches_made,
    share_right,
    steps_taken,
)
from r1_router.report.charts import Bar, bars, histogram, stacked
from r1_router.report.layout import MethodRun, Section, Table, count_text, labels
from r1_router.types import NONE, Trajectory, Usage

GOLD_FOUND = "Gold passage among the first k"
ANSWER_FOUND = "Answer in the first k passages"


def losses_section(runs: Sequence[MethodRun]) -> Section | None:
    """A bar a method: how many questions are right, and what went wrong first with the others."""
    found = [(label, ends) for label, trajectories in _labelled(runs) if (ends := losses(trajectories))]
    if not found:
        return None
    note = (
        "The first thing that went wrong on the gold path of a question whose answer is wrong. Routing: the source due "
        "was not asked. Retrieval: it was, and no gold passage was among its first five. Sub-answer: one was, and was "
        "misread. Final answer: every hop was met, or nothing is ever asked. A hop whose sub-answer is right was met, "
        "however that came about."
    )
    rows = ((label, *(count_text(count, sum(ends.values())) for count in ends.values())) for label, ends in found)
    table = Table(("method", *Stage), tuple(rows))
    plot = stacked("Where questions are lost", list(Stage), [(label, list(ends.values())) for label, ends in found])
    return Section("Where questions are lost", note, (table,), (plot,), folded=True)


def routing_section(runs: Sequence[MethodRun]) -> Section | None:
    """Right choices by step for each method that routes, and its confusion tables."""
    found = [(label, choices) for label, trajectories in _labelled(runs) if (choices := routing(trajectories))]
    if not found:
        return None
    deepest = max(len(choices.steps) for _, choices in found)
    rows = []
    for label, choices in found:
        shares = [_share(share_right(step)) for step in choices.steps]
        rows.append((label, _share(choices.accuracy), *shares, *["-"] * (deepest - len(shares))))
    steps = [f"step {number}" for number in range(1, deepest + 1)]
    tables = [Table(("method", "all steps", *steps), tuple(rows), "Share of right choices")]
    for label, choices in found:
        tables += [_heat(f"{label}, {name}", step) for name, step in zip(steps, choices.steps, strict=False)]
    note = (
        "Each row is the source due by the gold path, each column what was chosen; the stronger the shade, the larger "
        f"its share of the row. {NONE} is the stop, {OTHER} several sources at once or no step any more."
    )
    return Section("Routing", note, tuple(tables))


def retrieval_section(runs: Sequence[MethodRun]) -> Section | None:
    """Hits by source and depth: of gold passages where they are known, else of passages that hold the answer."""
    hops = [(label, *found) for label, those in _labelled(runs) for found in retrieval(those).items()]
    answers = [(label, *found) for label, those in _labelled(runs) for found in answer_hits(those).items()]
    tables = []
    if hops:
        rows = (
            (label, source, str(one.n), *_by_depth(one.hit), _share(one.mrr), *_by_depth(one.recall))
            for label, source, one in hops
        )
        columns = ("method", "source", "hops", *_depths("hit"), "MRR", *_depths("recall"))
        tables.append(Table(columns, tuple(rows), GOLD_FOUND))
    if answers:
        rows = ((label, source, str(one.n), *_by_depth(one.hit)) for label, source, one in answers)
        tables.append(Table(("method", "source", "questions", *_depths("hit")), tuple(rows), ANSWER_FOUND))
    note = (
        "Of a method that routes, a hop counts where the step at its place asked its source; of one that always asks "
        "the same, by the best of its steps. One gold passage is a hit; recall is the share of all that are known."
    )
    plots = (*_hit_plots(GOLD_FOUND, hops), *_hit_plots(ANSWER_FOUND, answers))
    return Section("Retrieval", note, tuple(tables), plots, folded=True) if tables else None


def effort_section(runs: Sequence[MethodRun]) -> Section | None:
    """Steps and retrievals per question as histograms, and the mean costs."""
    rows, plots = [], []
    for number, (label, trajectories) in enumerate(_labelled(runs)):
        answered = [trajectory for trajectory in trajectories if trajectory.error is None]
        if any(map(steps_taken, answered)):
            plots.append(histogram(f"Questions by steps that asked, {label}", _counted(answered, steps_taken), number))
            plots.append(histogram(f"Questions by retrievals, {label}", _counted(answered, searches_made), number))
        if means := costs(trajectories):
            rows.append((label, str(means.n), *map(_amount, (means.plans, *means.usage.values()))))
    if not rows and not plots:
        return None
    note = (
        "Means a question, over those whose usage was noted. Plans count the stop too; dropped are passages left out "
        "of prompts too long for the model. Seconds run from a question's start to its answer, while others were in "
        "flight, so they add up to more than the run took."
    )
    columns = ("method", "questions", "plans", *(one.name.replace("_", " ") for one in fields(Usage)))
    tables = (Table(columns, tuple(rows)),) if rows else ()
    return Section("Steps and costs", note, tables, tuple(plots))


def _labelled(runs: Sequence[MethodRun]) -> list[tuple[str, Sequence[Trajectory]]]:
    return [(label, trajectories) for label, (_, trajectories) in zip(labels(runs), runs, strict=True)]


def _heat(caption: str, step: Confusion) -> Table:
    """The table of gold sources against chosen ones: all sources that occur, then the stop and whatever else."""
    names = [*sorted({name for pair in step for name in pair} - {NONE, OTHER}), NONE, OTHER]
    rows, shares = [], []
    for gold in names[:-1]:
        counts = [step.get((gold, chosen), 0) for chosen in names]
        if total := sum(counts):
            rows.append((gold, *map(str, counts)))
            shares.append(tuple(count / total for count in counts))
    return Table(("due \\ chosen", *names), tuple(rows), caption, tuple(shares))


def _hit_plots(title: str, found: Sequence[tuple[str, str, Retrieval | AnswerHits]]) -> list[str]:
    """A plot a method: the hits of each source at each depth."""
    by_method: dict[str, list[tuple[str, list[Bar]]]] = {}
    for label, source, one in found:
        members = [Bar(f"hit@{k}", share, share, share, number) for number, (k, share) in enumerate(one.hit.items())]
        by_method.setdefault(label, []).append((source, members))
    return [bars(f"{title}, {label}", groups) for label, groups in by_method.items()]


def _depths(name: str) -> list[str]:
    return [f"{name}@{k}" for k in DEPTHS]


def _by_depth(shares: Mapping[int, float]) -> list[str]:
    return [_share(shares[k]) for k in DEPTHS]


def _counted(trajectories: Sequence[Trajectory], count: Callable[[Trajectory], int]) -> Counter[int]:
    return Counter(map(count, trajectories))


def _share(value: float) -> str:
    return f"{value:.3f}"


def _amount(value: float) -> str:
    """A mean as it is read: whole where it is, or is large."""
    return f"{value:.0f}" if value >= 100 or value == int(value) else f"{value:.2f}"
