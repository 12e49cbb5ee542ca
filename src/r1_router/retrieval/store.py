"""Passages by row number, read from their JSONL file when asked for; only the line starts are kept in memory."""

from __future__ import annotations

import hashlib
import json
import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from r1_router.errors import DataError

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PassageStore:
    """The lines of one file: row n starts at byte `starts[n]`, and `starts` has the file's size at its end."""

    path: Path
    starts: NDArray[np.int64]
    sha256: str
    lines: mmap.mmap

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, row: int) -> Row:
        """Row number `row`, from 0; raises DataError where the line is no passage."""
        return _passage(self.lines[self.starts[row] : self.starts[row + 1]], self.path, row + 1)

    def __iter__(self) -> Iterator[Row]:
        return (self[row] for row in range(len(self)))


def open_store(path: Path) -> PassageStore:
    """Map the file, find its lines and hash it, in one pass; raises DataError where it is empty or missing."""
    if not path.is_file() or path.stat().st_size == 0:
        raise DataError(f"No passages at {path}: the file is missing or empty. Give one JSON object a line.")
    digest, starts = hashlib.sha256(), [0]
    with open(path, "rb") as file:
        for line in file:
            digest.update(line)
            starts.append(starts[-1] + len(line))
        lines = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return PassageStore(path, np.array(starts, dtype=np.int64), digest.hexdigest(), lines)


def check_passages(store: PassageStore) -> None:
    """Raise DataError, naming the line, unless every line is a passage and every id is its own."""
    seen: dict[str, int] = {}
    for number, row in enumerate(store, start=1):
        if (first := seen.setdefault(row["id"], number)) != number:
            raise DataError(f"{store.path}, line {number}: id {row['id']!r} was used by line {first}; ids must differ.")


def _passage(line: bytes, path: Path, number: int) -> Row:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise DataError(f"{path}, line {number}: not JSON ({error}). Mend the line, or make the file anew.") from error
    if not isinstance(row, dict):
        raise DataError(f"{path}, line {number}: expected a JSON object, found {type(row).__name__}.")
    for key in ("id", "title", "text"):
        if not isinstance(row.get(key), str):
            raise DataError(f"{path}, line {number}: {key!r} must be a string, found {row.get(key)!r}.")
    if not isinstance(row.get("image"), str | None):
        raise DataError(f"{path}, line {number}: 'image' must be a path or absent, found {row['image']!r}.")
    return row
