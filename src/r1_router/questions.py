"""Question files: a benchmark of the config, a published set, or a user's own JSONL, CSV or Parquet file.

A file of one's own has the columns `question` and `answer` (a text, or a JSON list of them in one cell), and may have
`image`, a path from the file's folder, and `id`, which is the row's number where there is none. Commas, semicolons or
tabs part a CSV's cells. Of a results file the questions count, not what was answered.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TextIO

from r1_router import jsonl
from r1_router.benchmarks import PUBLISHED, Benchmark
from r1_router.datasets.places import PUBLISHED_ROOT, pictures_folder, questions_file, read_rows
from r1_router.errors import ConfigError, DataError, MissingDependency
from r1_router.records import GOLD_KEYS, ID_KEYS, OUTPUT_KEY, question_from_json
from r1_router.types import Question

BATCH = 1000  # rows of a Parquet file held at once
SEPARATORS = ",;\t"


@dataclass(frozen=True, slots=True)
class QuestionFile:
    """Where a benchmark's questions are, and the folder that their image paths start from.

    `mend` says what brings pictures that are not there; where it is empty they are not looked for.
    """

    name: str
    path: Path
    pictures: Path
    mend: str = ""
    published: Benchmark | None = None


def results_name(benchmark: str) -> str:
    """What a benchmark is called in result paths: its name, or the stem of the file that was passed as one."""
    path = Path(benchmark)
    return path.stem if path.suffix in READERS else benchmark


def find_questions(benchmark: str, configured: Mapping[str, Path], root: Path) -> QuestionFile:
    """The file that `--benchmark` means: a name of the config, a published set under `root`, or a path.

    Raises ConfigError for anything else, and for a file whose results would get mixed with those of a benchmark.
    """
    if benchmark in PUBLISHED:
        published = PUBLISHED[benchmark]
        path = configured.get(benchmark, questions_file(root / PUBLISHED_ROOT, published))
        mend = f"`r1-router datasets images {benchmark} --from PATH` brings them, `datasets check` says from what."
        return QuestionFile(benchmark, path, pictures_folder(path.parent, published), mend, published)
    if benchmark in configured:
        return QuestionFile(benchmark, configured[benchmark], configured[benchmark].parent)
    path, name = Path(benchmark), results_name(benchmark)
    if path.suffix not in READERS:
        raise ConfigError(
            f"--benchmark: none is named {benchmark!r}; there are {', '.join(configured)} in the config, "
            f"{', '.join(PUBLISHED)} to fetch, and any file that ends in {', '.join(READERS)}."
        )
    if not path.is_file():
        raise ConfigError(f"--benchmark: no file {path}.")
    if name in PUBLISHED or (name in configured and path.resolve() != configured[name].resolve()):
        raise ConfigError(f"--benchmark: the results of {path} would mix with the benchmark {name!r}; rename the file.")
    return QuestionFile(name, path, path.parent, f"Paths start from the file's folder, {path.parent}.")


def read_questions(file: QuestionFile) -> list[Question]:
    """The file's questions, image paths as they stand in it; raises DataError naming file and row."""
    if file.published:
        rows: Iterable[Mapping[str, Any]] = read_rows(file.path, file.published)
    elif not file.path.is_file():
        raise DataError(f"benchmark {file.name}: no file {file.path}.")
    else:
        rows = READERS.get(file.path.suffix, jsonl.read)(file.path)
    questions = [_question(file, number, row) for number, row in enumerate(rows, start=1)]
    if not questions:
        raise DataError(f"{file.path}: there is no question in it.")
    first: dict[str, int] = {}
    for number, question in enumerate(questions, start=1):
        if first.setdefault(question.id, number) != number:
            raise DataError(f"{file.path}, row {number}: has the id {question.id!r} of row {first[question.id]}.")
    return questions


def require_pictures(file: QuestionFile, questions: Sequence[Question]) -> None:
    """Raise DataError where not one of the pictures is there; a single one that is missing fails its question only."""
    pictures = [question.image for question in questions if question.image]
    if file.mend and pictures and not any(Path(picture).is_file() for picture in pictures):
        raise DataError(
            f"{file.name}: none of the {len(pictures)} pictures is there; the first is {pictures[0]}. {file.mend}"
        )


def _question(file: QuestionFile, number: int, row: Mapping[str, Any]) -> Question:
    place = f"{file.path}, row {number}"
    row = {key: value for key, value in row.items() if not OUTPUT_KEY.fullmatch(key)}
    row = {key: value for key, value in row.items() if key not in (*ID_KEYS, "image") or value not in (None, "")}
    image = file.published.image_path(row) if file.published else row.get("image")
    if image is not None and not isinstance(image, str):
        raise DataError(f"{place}: image: expected a path from {file.pictures}, found {type(image).__name__}.")
    try:
        question = question_from_json(row)
    except DataError as error:
        raise DataError(f"{place}: {error}") from error
    answers = question.answers if isinstance(question.answers, list | tuple) else [question.answers]
    if not any(str(answer).strip() for answer in answers if answer is not None):
        raise DataError(f"{place}: no answer under {' or '.join(GOLD_KEYS)}; without one nothing counts as right.")
    return replace(question, id=question.id or str(number), benchmark=file.name, image=image)


def _read_csv(path: Path) -> Iterator[dict[str, Any]]:
    with open(path, encoding="utf-8-sig", newline="") as file:  # spreadsheets write a byte-order mark
        try:
            separator = _separator(file)
            rows = csv.DictReader(file, delimiter=separator, strict=True)
            _require_columns(path, rows.fieldnames or ())
            for row in rows:
                if None in row:
                    told = f"more cells than columns; quote those with {separator!r} in them."
                    raise DataError(f"{path}, line {rows.line_num}: {told}")
                if any(cell and cell.strip() for cell in row.values()):  # a spreadsheet's empty rows are passed over
                    yield _with_listed_answers(row, f"{path}, line {rows.line_num}")
        except csv.Error as error:
            raise DataError(f"{path}, line {rows.reader.line_num}: not CSV ({error}).") from error
        except UnicodeDecodeError as error:
            raise DataError(f"{path}: not UTF-8 ({error}); save it as CSV in UTF-8.") from error


def _separator(file: TextIO) -> str:
    """What parts the header's cells; spreadsheets write semicolons where numbers have a decimal comma."""
    header = file.readline()
    file.seek(0)
    return max(SEPARATORS, key=header.count)


def _read_parquet(path: Path) -> Iterator[dict[str, Any]]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ModuleNotFoundError as error:
        raise MissingDependency(f"{path}: Parquet files need pyarrow: pip install pyarrow") from error
    try:
        with parquet.ParquetFile(path) as file:
            _require_columns(path, file.schema_arrow.names)
            rows = (row for batch in file.iter_batches(BATCH) for row in batch.to_pylist())
            for number, row in enumerate(rows, start=1):
                yield _with_listed_answers(json.loads(json.dumps(row, default=_plain)), f"{path}, row {number}")
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(f"{path}: not a whole Parquet file ({error}).") from error


READERS = {".jsonl": jsonl.read, ".csv": _read_csv, ".parquet": _read_parquet}
"""How a question file is read, by its ending."""


def _require_columns(path: Path, columns: Sequence[str]) -> None:
    if "question" not in columns or not set(GOLD_KEYS) & set(columns):
        found = ", ".join(columns) or "none"
        raise DataError(f"{path}: expected the columns question and answer, and perhaps image and id; found {found}.")
    if repeated := {column for column in columns if columns.count(column) > 1}:
        raise DataError(f"{path}: the columns {', '.join(sorted(repeated))} occur twice.")


def _with_listed_answers(row: dict[str, Any], place: str) -> dict[str, Any]:
    """The row with a cell that holds a JSON list of answers turned into that list."""
    for key in GOLD_KEYS:
        cell = row.get(key)
        if isinstance(cell, str) and cell.lstrip().startswith("["):
            try:
                row[key] = json.loads(cell)
            except ValueError as error:
                raise DataError(
                    f'{place}: {key}: {cell[:80]!r} starts as a list does but is no JSON ({error}); write ["a", "b"].'
                ) from error
    return row


def _plain(value: Any) -> str | None:
    """What JSON has no form for: dates and the like as text, bytes left out."""
    return None if isinstance(value, bytes) else str(value)
