"""Two results files on the same questions: the difference of each metric, and the questions that changed sides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from r1_router.errors import DataError
from r1_router.intervals import Interval, paired_bootstrap
from r1_router.metrics import HEADLINE, Metric, metric_named
from r1_router.predictions import Prediction, ResultsFile

DEFAULT_METRICS = (HEADLINE, "token_f1", "exact_match", "yes_no", "numeric", "predicted_tokens")
RIGHT = 1.0
"""The score from which an answer counts as right: all of the gold is in it."""
LINE_CHARS = 160


@dataclass(frozen=True, slots=True)
class Difference:
    """One metric on the `n` shared questions that it applies to; `interval` is that of mean(A) - mean(B)."""

    metric: Metric
    n: int
    a: float
    b: float
    interval: Interval


@dataclass(frozen=True, slots=True)
class Flip:
    """A question that one file has right and the other wrong."""

    a: Prediction
    b: Prediction
    a_right: bool


@dataclass(frozen=True, slots=True)
class Comparison:
    """A against B; `flips` are by the first metric, in A's order; `only_a` and `only_b` count unshared questions."""

    a: ResultsFile
    b: ResultsFile
    shared: int
    only_a: int
    only_b: int
    differences: tuple[Difference, ...]
    flips: tuple[Flip, ...]


def compare(a: ResultsFile, b: ResultsFile, metrics: Sequence[str] = DEFAULT_METRICS, seed: int = 0) -> Comparison:
    """Score both files on the questions they share, with paired bootstrap intervals over questions.

    Raises DataError where they share none, or where one question has two golds: figures against different golds
    say nothing about the answers.
    """
    pairs = _paired(a, b)
    return Comparison(
        a=a,
        b=b,
        shared=len(pairs),
        only_a=len(a.predictions) - len(pairs),
        only_b=len(b.predictions) - len(pairs),
        differences=tuple(_differences(pairs, map(metric_named, metrics), seed)),
        flips=tuple(_flips(pairs, metric_named(metrics[0]))),
    )


def describe(comparison: Comparison, flips: int = 10) -> str:
    """The comparison as a terminal shows it: the counts, a line a metric, then up to `flips` questions of each side."""
    lines = [
        f"A  {comparison.a.path}",
        f"B  {comparison.b.path}",
        f"{comparison.shared} shared questions; {comparison.only_a} only in A, {comparison.only_b} only in B",
        "",
        f"{'metric':20} {'n':>6} {'A':>8} {'B':>8} {'A - B':>8}  95% interval (* excludes 0)",
        *map(_difference_line, comparison.differences),
    ]
    for side, a_right in (("A", True), ("B", False)):
        found = [flip for flip in comparison.flips if flip.a_right is a_right]
        lines += ["", f"right only in {side}: {len(found)}"]
        lines += [line for flip in found[:flips] for line in _flip_lines(flip)]
    return "\n".join(lines)


def _paired(a: ResultsFile, b: ResultsFile) -> list[tuple[Prediction, Prediction]]:
    by_id = all(one.id for one in (*a.predictions, *b.predictions))
    others = dict(_keyed(b, by_id))
    pairs = [(one, others[key]) for key, one in _keyed(a, by_id) if key in others]
    if not pairs:
        raise DataError(f"{a.path} and {b.path} share no question; were they run on the same benchmark?")
    for mine, other in pairs:
        if _listed(mine.gold) != _listed(other.gold):
            raise DataError(
                f"{a.path}, line {mine.line}, and {b.path}, line {other.line}: the same question with two golds, "
                f"{mine.gold!r} and {other.gold!r}; run both on one version of the benchmark."
            )
    return pairs


def _listed(gold: Any) -> list[Any]:
    """The gold as a list: JSON has a list of one where CSV has its text."""
    return gold if isinstance(gold, list) else [gold]


def _keyed(results: ResultsFile, by_id: bool) -> Iterator[tuple[tuple[str, str, int], Prediction]]:
    """Each prediction by what tells its question: its text with its id, or with its picture and a count of alikes."""
    seen: Counter[tuple[str, str]] = Counter()
    for one in results.predictions:
        key = (one.question, one.id if by_id else one.image)
        seen[key] += 1
        yield (*key, seen[key]), one


def _differences(
    pairs: Sequence[tuple[Prediction, Prediction]], metrics: Iterable[Metric], seed: int
) -> Iterator[Difference]:
    for metric in metrics:
        scored = [(metric.of(*mine.pair), metric.of(*other.pair)) for mine, other in pairs]
        a = [value for value, _ in scored if value is not None]
        b = [value for _, value in scored if value is not None]
        if a:
            yield Difference(metric, len(a), sum(a) / len(a), sum(b) / len(b), paired_bootstrap(a, b, seed))


def _flips(pairs: Sequence[tuple[Prediction, Prediction]], metric: Metric) -> Iterator[Flip]:
    for mine, other in pairs:
        a_right, b_right = metric.of(*mine.pair) == RIGHT, metric.of(*other.pair) == RIGHT
        if a_right != b_right:
            yield Flip(mine, other, a_right)


def _difference_line(one: Difference) -> str:
    unit = 100 if one.metric.is_share else 1
    figures = [unit * value for value in (one.a, one.b, one.interval.mean)]
    low, high = unit * one.interval.low, unit * one.interval.high
    mark = "  *" if one.interval.excludes_zero else ""
    cells = " ".join(f"{figure:8.2f}" for figure in figures)
    return f"{one.metric.label:20} {one.n:6} {cells}  [{low:.2f}, {high:.2f}]{mark}"


def _flip_lines(flip: Flip) -> list[str]:
    return [
        _shown(f"  {flip.a.id or f'line {flip.a.line}'}  {flip.a.question}"),
        _shown(f"    gold {' | '.join(map(str, _listed(flip.a.gold)))}"),
        _shown(f"    A    {flip.a.text or '(no answer)'}"),
        _shown(f"    B    {flip.b.text or '(no answer)'}"),
    ]


def _shown(line: str) -> str:
    """Text from data on one line of a terminal: cut, and without characters that a terminal would obey."""
    return "".join(letter if letter.isprintable() else " " for letter in line[:LINE_CHARS])
