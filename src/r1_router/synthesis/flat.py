"""Flat rows, one a step, as trainers read them; made of nested rows, and put together to the same rows again.

    {"id": "3-2", "row": 3, "step": 2, "step_type", "prompt": [system message, user message], "images", "target": JSON}

`row` and `step` count from 1. `target` is the step's answer as JSON text, for a column has one type and answers have
three: a route, a text, a list of golds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from r1_router import jsonl
from r1_router.errors import ConfigError, DataError, MissingDependency
from r1_router.files import write_atomically
from r1_router.synthesis.places import Row, require_step_row

FLAT_KEYS = ("id", "row", "step", "step_type", "prompt", "images", "target")
ROLES = ["system", "user"]


def flat_rows(rows: Iterable[Row]) -> Iterator[dict[str, Any]]:
    """One row a step, in order; raises DataError for what is no step row."""
    for number, row in enumerate(rows, start=1):
        require_step_row(row, number)
        for index, step in enumerate(row["steps"], start=1):
            texts = zip(ROLES, (step["system"], step["problem"]), strict=True)
            yield {
                "id": f"{number}-{index}",
                "row": number,
                "step": index,
                "step_type": step["step_type"],
                "prompt": [{"role": role, "content": text} for role, text in texts],
                "images": list(row["images"]),
                "target": target_of(step),
            }


def target_of(step: Row) -> str:
    """The step's answer as JSON text."""
    return json.dumps(step["answer"], ensure_ascii=False)


def nested(flat: Iterable[Row]) -> list[dict[str, Any]]:
    """The nested rows, whatever the order of the flat ones; raises DataError where a step is missing or there twice."""
    steps: dict[int, dict[int, Row]] = {}
    for position, one in enumerate(flat, start=1):
        _require_flat_row(one, position)
        own = steps.setdefault(one["row"], {})
        if one["step"] in own:
            raise DataError(f"flat row {position}: step {one['step']} of row {one['row']} is there twice.")
        own[one["step"]] = one
    return [_nested_row(number, steps[number]) for number in sorted(steps)]


def write_flat(path: Path, rows: Iterable[Row]) -> None:
    """Write nested rows as flat ones, whole or not at all; `path` ends in .jsonl or .parquet."""
    _by_ending(path, WRITERS)(path, flat_rows(rows))


def read_flat(path: Path) -> Iterator[dict[str, Any]]:
    """The flat rows of a .jsonl or .parquet file, in the file's order."""
    return _by_ending(path, READERS)(path)


def _nested_row(number: int, steps: Mapping[int, Row]) -> dict[str, Any]:
    ordered = [steps[index] for index in sorted(steps)]
    if missing := set(range(1, max(steps) + 1)) - set(steps):
        raise DataError(f"row {number}: the steps {', '.join(map(str, sorted(missing)))} are missing.")
    if any(list(step["images"]) != list(ordered[0]["images"]) for step in ordered):
        raise DataError(f"row {number}: its steps name different images; a row has one list for all.")
    return {"images": list(ordered[0]["images"]), "steps": [_nested_step(step) for step in ordered]}


def _nested_step(step: Row) -> dict[str, Any]:
    system, user = (message["content"] for message in step["prompt"])
    try:
        answer = json.loads(step["target"])
    except ValueError as error:
        raise DataError(f"flat row {step['id']}: target is not JSON ({error}).") from error
    return {"step_type": step["step_type"], "problem": user, "system": system, "answer": answer}


def _require_flat_row(one: Row, position: int) -> None:
    if missing := [key for key in FLAT_KEYS if key not in one]:
        raise DataError(f"flat row {position}: no {', '.join(missing)}; `r1-router steps flatten` makes such rows.")
    roles = [message["role"] for message in one["prompt"]]
    if roles != ROLES:
        raise DataError(f"flat row {position}: expected a system and a user message, found {', '.join(roles)}.")


def _by_ending(path: Path, table: Mapping[str, Callable[..., Any]]) -> Callable[..., Any]:
    if path.suffix not in table:
        raise ConfigError(f"{path}: flat rows are kept in files that end in {' or '.join(table)}.")
    return table[path.suffix]


def _write_parquet(path: Path, rows: Iterable[Row]) -> None:
    pyarrow, parquet = _pyarrow(path)
    message = pyarrow.struct([("role", pyarrow.string()), ("content", pyarrow.string())])
    types = {"row": pyarrow.int64(), "step": pyarrow.int64(), "prompt": pyarrow.list_(message)}
    types["images"] = pyarrow.list_(pyarrow.string())
    schema = pyarrow.schema([(key, types.get(key, pyarrow.string())) for key in FLAT_KEYS])
    sink = pyarrow.BufferOutputStream()
    try:
        parquet.write_table(pyarrow.Table.from_pylist(list(rows), schema=schema), sink)
    except UnicodeEncodeError as error:
        raise DataError(f"{path}: Parquet cannot hold half a character ({error}); write .jsonl.") from error
    write_atomically(path, sink.getvalue().to_pybytes())


def _read_parquet(path: Path) -> Iterator[dict[str, Any]]:
    pyarrow, parquet = _pyarrow(path)
    try:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches():
                yield from batch.to_pylist()
    except pyarrow.ArrowException as error:
        raise DataError(f"{path}: not a whole Parquet file ({error}).") from error


def _pyarrow(path: Path) -> tuple[Any, Any]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ModuleNotFoundError as error:
        raise MissingDependency(f"{path}: Parquet files need pyarrow: pip install pyarrow") from error
    return pyarrow, parquet


READERS: dict[str, Callable[[Path], Iterator[dict[str, Any]]]] = {".jsonl": jsonl.read, ".parquet": _read_parquet}
WRITERS: dict[str, Callable[[Path, Iterable[Row]], None]] = {".jsonl": jsonl.rewrite, ".parquet": _write_parquet}
"""How flat rows are read and written, by the file's ending."""
