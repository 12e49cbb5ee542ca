"""Every metric, once: the published F1-Recall with its quirks, and SQuAD's token F1 and exact match.

A gold is what the benchmark's record holds: one answer, a list of accepted answers, and among them numeric
ranges as InfoSeek writes them, `{"range": [low, high]}`.
"""

from __future__ import annotations

import math
import re
import string
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from r1_router.benchmarks import benchmark_named
from r1_router.errors import DataError
from r1_router.scoring_tables import (
    CONTRACTIONS,
    DROPPED_ARTICLES,
    MARKS,
    MAX_STOPS_REMOVED,
    NUMBER_WORDS,
    TOKEN_RULES,
    UNSCORED,
)

_FULL_STOP = re.compile(r"\.(?!\d)")
_DIGIT_COMMA_DIGIT = re.compile(r"\d,\d")
_SQUAD_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_BEYOND = 2
"""No accepted number lies this far outside its range: the last step is at most 1 beyond it, as is an end made whole."""
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


@dataclass(frozen=True, slots=True)
class Scores:
    """Token overlap of a prediction with one gold, each figure in 0..1."""

    precision: float = 0.0
    recall: float = 0.0
    f1: float = 0.0


def score(prediction: str, gold: Any, benchmark: str | None = None) -> Scores:
    """The scores against the gold of highest F1, ties going to the first; `.recall` is the published F1-Recall.

    So it is not the highest recall: a long gold that is half met can win over a short one fully met. Recall does
    not punish length ("yes or no" is always right), so read `.f1` beside it. An empty prediction scores 0.
    The gold's own form says how it is scored; a `benchmark` that is named must be known, or ConfigError is raised.
    """
    if benchmark is not None:
        benchmark_named(benchmark)
    return _best(prediction, gold, tokenise)


def token_f1(prediction: str, gold: Any) -> float:
    """SQuAD's token F1: the best over the golds, after SQuAD's normalisation."""
    return _best(prediction, gold, squad_tokens).f1


def exact_match(prediction: str, gold: Any) -> bool:
    """Whether the prediction is one of the golds after SQuAD's normalisation (a range: one number inside it)."""
    return _best(prediction, gold, _squad_text).f1 == 1.0


def tokenise(text: Any) -> list[str]:
    """The reference's tokens: normalised text, split like the Penn Treebank, without lone punctuation."""
    text = normalise(text)
    for pattern, replacement in TOKEN_RULES:
        text = pattern.sub(replacement, text)
    return [token for token in text.split() if token not in UNSCORED]


def normalise(text: Any) -> str:
    """The reference's normalisation: punctuation out, number words to digits, `an` and `the` out, apostrophes in."""
    text = _without_marks(str(text).replace("\n", " ").replace("\t", " ").strip())
    text = _FULL_STOP.sub("", text, count=MAX_STOPS_REMOVED)
    words = (NUMBER_WORDS.get(word, word) for word in text.lower().split())
    return " ".join(CONTRACTIONS.get(word, word) for word in words if word not in DROPPED_ARTICLES)


def squad_tokens(text: Any) -> list[str]:
    """SQuAD's tokens: lower case, no punctuation, no articles; never empty for a text that has a word.

    Golds such as "A" or "?" would vanish and then match nothing (or everything); they are kept as they stand.
    """
    lowered = str(text).lower()
    words = _SQUAD_ARTICLES.sub(" ", lowered.translate(_WITHOUT_PUNCTUATION)).split()
    return words or lowered.split()


def _squad_text(text: Any) -> list[str]:
    """The whole text as one token, so that overlap is equality."""
    words = squad_tokens(text)
    return [" ".join(words)] if words else []


def _without_marks(text: str) -> str:
    """Each mark deleted if it touches a space anywhere in the text, else made a space.

    Quirk: one comma between digits makes every mark count as touching ("New-York 1,000" gives "newyork").
    """
    delete_all = _DIGIT_COMMA_DIGIT.search(text) is not None
    cleaned = text
    for mark in MARKS:
        if mark in text:
            touches_space = f"{mark} " in text or f" {mark}" in text
            cleaned = cleaned.replace(mark, "" if delete_all or touches_space else " ")
    return cleaned


def _best(prediction: str, gold: Any, tokens_of: Callable[[Any], list[str]]) -> Scores:
    if not prediction:
        return Scores()
    predicted = tokens_of(prediction)
    best = Scores()
    for one in _golds(gold):
        if isinstance(one, Mapping):
            scores = _against_range(tokenise(prediction), one)
        else:
            scores = _overlap(predicted, tokens_of(one))
        if scores.f1 > best.f1:
            best = scores
    return best


def _golds(gold: Any) -> Sequence[Any]:
    return gold if isinstance(gold, (list, tuple)) else [gold]


def _overlap(predicted: Sequence[str], gold: Sequence[str]) -> Scores:
    """Multiset overlap of two token lists; 0 when they share nothing."""
    shared = (Counter(predicted) & Counter(gold)).total()
    if shared == 0:
        return Scores()
    precision, recall = shared / len(predicted), shared / len(gold)
    return Scores(precision, recall, 2 * precision * recall / (precision + recall))


def _against_range(predicted: Sequence[str], gold: Mapping[str, Any]) -> Scores:
    """Overlap with the best of the one-token golds that the reference turns a numeric range into."""
    low, high = range_of(gold)
    if not any(accepted_in_range(token, low, high) for token in predicted):
        return Scores()
    return Scores(1 / len(predicted), 1.0, 2 / (len(predicted) + 1))


def range_of(gold: Mapping[str, Any]) -> tuple[float, float]:
    """The ends of a numeric range, as they are written; raises DataError where the gold has none."""
    if not is_range(gold):
        raise DataError(f"A gold that is an object needs 'range': [low, high]; found {dict(gold)}.")
    low, high = gold["range"]
    return low, high


def is_range(value: Any) -> bool:
    """Whether `value` is a gold that holds a numeric range, its ends in whatever order."""
    ends = value.get("range") if isinstance(value, Mapping) else None
    return isinstance(ends, list | tuple) and len(ends) == 2 and all(map(is_number, ends))


def is_number(value: Any) -> bool:
    """Whether `value` is a number that can be reckoned with: no bool, not NaN, and not beyond what a float holds."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def accepted_in_range(token: str, low: float, high: float) -> bool:
    """Whether `token` is written exactly as one of the range's accepted numbers.

    Quirks, kept for comparable scores: the accepted numbers are `low`, `low + step`, .. up to one step beyond
    `high`, rounded to 3 places, and the integers from int(low) to int(high). So [390.6, 477.4] takes "390" and
    refuses "434.0", and signs are lost. The reference lists up to 25,000 strings; this asks for membership.
    """
    try:
        size = float(token)
    except ValueError:
        return False
    if not math.isfinite(size):
        return False
    return any(token == str(number).lstrip("-") for value in (size, -size) for number in _nearest(value, low, high))


def _nearest(value: float, low: float, high: float) -> Iterator[float]:
    """The accepted numbers next to `value`: at most one integer and three of the steps."""
    if not low - _BEYOND <= value <= high + _BEYOND:
        return
    if int(low) <= int(value) <= int(high):
        yield int(value)
    span = float(high) - float(low)
    if not math.isfinite(span):
        return
    step = _step(span)
    count = math.ceil((high + step - low) / step)
    # Rounded as numpy.arange rounds it, or the third decimal can differ; beyond 2^53 nothing is left of a step.
    stride = (low + step) - low or step
    nearest = round((value - low) / stride)
    for index in range(max(nearest - 1, 0), min(nearest + 2, count)):
        yield round(low + index * stride, 3)


def _step(span: float) -> float:
    """The reference's step for a range as wide as `span`."""
    if span >= 50:
        return 1
    if span >= 5:
        return 0.1
    return 0.01 if span >= 1 else 0.001
