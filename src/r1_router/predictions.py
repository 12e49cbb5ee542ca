"""A results file as what is scored of it: predictions beside their golds, with what was odd counted.

Nothing is passed over in silence: what makes a figure wrong is an error that names file and line, and what a figure
can bear is counted in `ResultsFile.notes`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from r1_router import jsonl
from r1_router.errors import DataError
from r1_router.records import GOLD_KEYS, ID_KEYS
from r1_router.scoring import is_number, is_range, tokenise

FAILED = "failed, scored as wrong"
UNANSWERED = "without an answer, scored as wrong"
EMPTY = "empty answers, scored as wrong"
WORDLESS_GOLD = "golds without a word to meet, always scored as wrong"
NAN = "records with NaN where nothing is scored"
REPEATED = "repeated questions, with no id to tell them apart"
BLANK = "blank lines"
VERDICTS_SUFFIX = ".judge.jsonl"
"""What ends the name of the file beside results that holds a judge's verdicts: `NAME.judge.jsonl`."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """One answered question: `text` is "" where there is no answer, `id` is "" where the row has none."""

    line: int
    id: str
    question: str
    image: str
    gold: Any
    text: str
    oddities: tuple[str, ...] = ()

    @property
    def pair(self) -> tuple[str, Any]:
        """What a metric takes."""
        return self.text, self.gold


@dataclass(frozen=True, slots=True)
class ResultsFile:
    """One method's predictions on one benchmark, in the file's order."""

    path: Path
    predictions: tuple[Prediction, ...]
    blank_lines: int = 0

    def notes(self) -> dict[str, int]:
        """What was odd and how often; oddities that did not occur are left out."""
        counts = Counter(oddity for one in self.predictions for oddity in one.oddities)
        asked = Counter((one.question, one.image) for one in self.predictions if not one.id)
        counts[REPEATED] = asked.total() - len(asked)
        counts[BLANK] = self.blank_lines
        return {what: count for what, count in counts.items() if count}


def read_predictions(path: Path, gold_keys: Sequence[str] = GOLD_KEYS) -> ResultsFile:
    """The predictions in `path`, a file of ours or of the reference, whose answers may be objects or texts.

    Raises DataError, naming file and line: no file or no record in it, a torn or broken line, a gold that is absent,
    empty or no text or number, an answer that is neither a text nor an object holding one, an id that occurs twice.
    """
    if not path.is_file():
        raise DataError(f"no results file {path}{_neighbours(path)}; `r1-router run` makes one.")
    predictions = tuple(_read(path, gold_keys))
    if not predictions:
        raise DataError(f"{path} holds no record; `r1-router run` fills it.")
    _refuse_repeated_ids(path, predictions)
    with open(path, "rb") as lines:
        return ResultsFile(path, predictions, sum(not line.strip() for line in lines))


def results_files(folder: Path) -> list[Path]:
    """The results files in `folder`, by name; verdicts kept beside them are none."""
    return sorted(path for path in folder.glob("*.jsonl") if not path.name.endswith(VERDICTS_SUFFIX))


def _neighbours(path: Path) -> str:
    """The results in a folder, or beside a missing file, which tell a misspelt method from one that was not run."""
    found = [other.name for other in results_files(path if path.is_dir() else path.parent)]
    return f" (that folder has {', '.join(found)})" if found else ""


def _read(path: Path, gold_keys: Sequence[str]) -> Iterator[Prediction]:
    with open(path, "rb") as lines:
        numbers = [number for number, line in enumerate(lines, start=1) if line.strip()]
    for number, record in zip(numbers, jsonl.read(path), strict=True):
        try:
            yield _prediction(number, record, gold_keys)
        except DataError as error:
            raise DataError(f"{path}, line {number}: {error}") from error


def _prediction(line: int, record: Mapping[str, Any], gold_keys: Sequence[str]) -> Prediction:
    if not isinstance(record.get("question"), str):
        raise DataError(f"question: expected the question's text, found {record.get('question')!r}.")
    text, gold = _answer(record.get("llm_answer")), _gold(record, gold_keys)
    return Prediction(
        line=line,
        id=str(next((record[key] for key in ID_KEYS if record.get(key) not in (None, "")), "")),
        question=record["question"],
        image=str(record.get("image_id") or record.get("image") or ""),
        gold=gold,
        text=text or "",
        oddities=tuple(_oddities(record, text, gold)),
    )


def _oddities(record: Mapping[str, Any], text: str | None, gold: Any) -> Iterator[str]:
    if text is None:
        yield UNANSWERED if record.get("error") is None else FAILED
    elif not text:
        yield EMPTY
    if not any(isinstance(one, Mapping) or tokenise(one) for one in _golds(gold)):
        yield WORDLESS_GOLD
    if any(isinstance(value, float) and math.isnan(value) for value in record.values()):
        yield NAN


def _answer(value: Any) -> str | None:
    """The answer's text from either form; None where the run did not come to one."""
    if isinstance(value, Mapping):
        if "answer" not in value:
            raise DataError(f"llm_answer: an object needs 'answer'; it has {list(value)}.")
        value = value["answer"]
    if value is None or isinstance(value, str):
        return value
    if not is_number(value):
        raise DataError(f"llm_answer: expected a text or an object with 'answer', found {value!r}.")
    return str(value)


def _gold(record: Mapping[str, Any], keys: Sequence[str]) -> Any:
    """The record's gold, checked: what would score 0 whatever the answer is refused."""
    key = next((key for key in keys if key in record), None)
    if key is None:
        raise DataError(f"no gold: expected {' or '.join(keys)}; the record has {list(record)}.")
    gold = record[key]
    if all(isinstance(one, str) and not one.strip() for one in _golds(gold)):
        raise DataError(f"{key}: the gold is empty: {gold!r}.")
    for one in _golds(gold):
        if not (isinstance(one, str) or is_number(one) or _is_sound_range(one)):
            raise DataError(f"{key}: a gold is a text, a number or an object with 'range': [low, high]; found {one!r}.")
    return gold


def _golds(gold: Any) -> list[Any]:
    return gold if isinstance(gold, list) else [gold]


def _is_sound_range(value: Any) -> bool:
    return is_range(value) and value["range"][0] <= value["range"][1]


def _refuse_repeated_ids(path: Path, predictions: Sequence[Prediction]) -> None:
    first: dict[str, int] = {}
    for one in predictions:
        if one.id and first.setdefault(one.id, one.line) != one.line:
            raise DataError(
                f"{path}, line {one.line}: the id {one.id!r} stands in line {first[one.id]} too, so its question would "
                "count twice; take one of the lines out, or run with --fresh."
            )
