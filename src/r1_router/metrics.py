"""Every metric by name, each with the version that outputs carry, and their means with intervals.

A metric takes a prediction and a gold as the benchmark's record holds it, and gives one figure a question, or None
where it does not apply to that gold: yes/no accuracy says nothing about a name. Change what one gives and its
version must rise, or figures of two releases would be compared that mean different things.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from r1_router.errors import ConfigError
from r1_router.intervals import Interval, bootstrap
from r1_router.scoring import exact_match, range_of, score, squad_tokens, token_f1, tokenise
from r1_router.scoring_tables import NUMBER_WORDS

RELATIVE_TOLERANCE = 1e-4
"""How far a number may lie from a single-number gold, as a share of it: a rounding, but not the next year."""

LABELS = frozenset({"yes", "no"})
_HAN_AND_KANA = "\u3005\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_CJK = re.compile(f"[{_HAN_AND_KANA}]")
_NUMBER = r"(?:(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]+)?|\.[0-9]+)(?:e[+-]?[0-9]+)?"
_NUMBER_IN_TEXT = re.compile(rf"(?:(?<![\w.)%-])-)?{_NUMBER}", re.IGNORECASE)
"""A hyphen is a sign only where nothing stands before it that it could join or span ("6.5-7", "covid-19")."""
_NUMERIC_GOLD = re.compile(rf"[$\u20ac\u00a3]?\s*(-?{_NUMBER})\s*%?", re.IGNORECASE)
_NUMBER_WORDS = {word: float(digit) for word, digit in NUMBER_WORDS.items() if word != "none"}
"""`none` means 0 to the published metric; as a numeric reply it is a refusal."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric: `of(prediction, gold)` lies in 0..1, unless `is_share` is False; None: it does not apply."""

    name: str
    version: int
    of: Callable[[str, Any], float | None]
    meaning: str
    is_share: bool = True

    @property
    def label(self) -> str:
        """Name and version, as outputs carry them."""
        return f"{self.name}@{self.version}"


@dataclass(frozen=True, slots=True)
class Measure:
    """The mean of one metric over the `n` questions that it applies to; `interval` is None where there is none."""

    metric: Metric
    n: int
    interval: Interval | None

    def __str__(self) -> str:
        """Mean and interval, shares in percent; a dash where the metric applies to no question."""
        if self.interval is None:
            return "-"
        return spelt(self.interval, 100 if self.metric.is_share else 1)

    def to_json(self) -> dict[str, Any]:
        """Version, count, and mean with its 95% interval, in the metric's own unit (shares in 0..1)."""
        figures = {name: getattr(self.interval, name) if self.interval else None for name in ("mean", "low", "high")}
        return {"version": self.metric.version, "n": self.n, **figures}


def spelt(interval: Interval, unit: float) -> str:
    """Mean and interval in `unit`s, as every output has them."""
    mean, low, high = (unit * value for value in (interval.mean, interval.low, interval.high))
    return f"{mean:.2f}  [{low:.2f}, {high:.2f}]"


def measure(pairs: Sequence[tuple[str, Any]], names: Iterable[str], seed: int) -> list[Measure]:
    """Each named metric over (prediction, gold) pairs, with a seeded bootstrap over questions."""
    measures = []
    for metric in map(metric_named, names):
        values = [value for pair in pairs if (value := metric.of(*pair)) is not None]
        measures.append(Measure(metric, len(values), bootstrap(values, seed) if values else None))
    return measures


def metric_named(name: str) -> Metric:
    """The metric `name`; raises ConfigError listing those there are."""
    if name not in METRICS:
        raise ConfigError(f"--metrics: no metric is named {name!r}; there are {', '.join(METRICS)}.")
    return METRICS[name]


def max_recall(prediction: str, gold: Any) -> float:
    """The highest recall over the golds, as OmniSearch counts it; never below F1-Recall, which keeps the best F1's."""
    return max((score(prediction, one).recall for one in _golds(gold)), default=0.0)


def yes_no(prediction: str, gold: Any) -> float | None:
    """Whether the reply's one label is the gold's; a reply that holds both words, or neither, is wrong."""
    wanted = {str(one).strip().strip(".").lower() for one in _golds(gold)}
    if len(wanted) != 1 or not wanted <= LABELS:
        return None
    return float(LABELS & set(tokenise(prediction)) == wanted)


def numeric(prediction: str, gold: Any) -> float | None:
    """Whether the reply holds a number and every number in it answers one and the same numeric gold.

    A range takes what lies between its true ends, ends included; a single number what lies within
    RELATIVE_TOLERANCE. So a list of guesses is wrong, unlike in the published metric.
    """
    spans = [span for one in _golds(gold) if (span := _span(one)) is not None]
    if not spans:
        return None
    found = numbers_in(prediction)
    return float(bool(found) and any(all(low <= number <= high for number in found) for low, high in spans))


def numbers_in(text: str) -> list[float]:
    """The numbers written in `text` with digits, else those written as the words zero to ten."""
    text = unicodedata.normalize("NFKC", text).replace("\u2212", "-")
    digits = [float(number.replace(",", "")) for number in _NUMBER_IN_TEXT.findall(text)]
    return digits or [_NUMBER_WORDS[word] for word in re.findall(r"\w+", text.lower()) if word in _NUMBER_WORDS]


def cjk_f1(prediction: str, gold: Any) -> float | None:
    """Token F1 with each Han or kana character a token, over all golds; None where no gold has one.

    The published metric takes an unbroken Chinese sentence for one token, met whole or not at all.
    """
    if not any(_CJK.search(str(one)) for one in _golds(gold)):
        return None
    return token_f1(_spaced(prediction), [one if isinstance(one, Mapping) else _spaced(one) for one in _golds(gold)])


def predicted_tokens(prediction: str, gold: Any) -> float:
    """Words in the reply, Han and kana counted one by one: the guard beside recall, which length can only raise."""
    return float(len(squad_tokens(_spaced(prediction))))


def _span(gold: Any) -> tuple[float, float] | None:
    """The numbers that meet a gold, as (lowest, highest); None for a gold that is no number."""
    if isinstance(gold, Mapping):
        return range_of(gold)
    written = None if isinstance(gold, bool) else _NUMERIC_GOLD.fullmatch(str(gold).strip())
    if written is None:
        return None
    number = float(written[1].replace(",", ""))
    slack = RELATIVE_TOLERANCE * abs(number)
    return (number - slack, number + slack) if math.isfinite(number) else None


def _spaced(text: Any) -> str:
    """NFKC text with Han and kana characters set apart and Unicode punctuation made space."""
    folded = unicodedata.normalize("NFKC", str(text))
    kept = "".join(" " if _is_wide_mark(letter) else letter for letter in folded)
    return _CJK.sub(r" \g<0> ", kept)


def _is_wide_mark(letter: str) -> bool:
    """Whether `letter` is punctuation outside ASCII; SQuAD's rules see to ASCII's."""
    return not letter.isascii() and unicodedata.category(letter).startswith("P")


def _golds(gold: Any) -> Sequence[Any]:
    return gold if isinstance(gold, list | tuple) else [gold]


METRICS = {
    metric.name: metric
    for metric in (
        Metric("f1_recall", 1, lambda *pair: score(*pair).recall, "published F1-Recall: recall of the best-F1 gold"),
        Metric("precision", 1, lambda *pair: score(*pair).precision, "precision against that gold"),
        Metric("f1", 1, lambda *pair: score(*pair).f1, "F1 against that gold"),
        Metric("max_recall", 1, max_recall, "highest recall over the golds, as OmniSearch"),
        Metric("exact_match", 1, lambda *pair: float(exact_match(*pair)), "SQuAD exact match"),
        Metric("token_f1", 1, token_f1, "SQuAD token F1"),
        Metric("yes_no", 1, yes_no, "the one label in the reply, where the gold is yes or no"),
        Metric("numeric", 1, numeric, "every number in the reply right, where the gold is a number or range"),
        Metric("cjk_f1", 1, cjk_f1, "token F1 by Han and kana character, where a gold has one"),
        Metric("predicted_tokens", 1, predicted_tokens, "mean words in a reply", is_share=False),
    )
}
"""Every metric by name, the published one first."""

HEADLINE = "f1_recall"
