"""Passages by row number or id, read from their JSONL file when asked for; where to read is mapped, not held.

passages.jsonl        a passage a line
passages.starts.npy   where each line starts, and the file's size: 8 bytes a passage
passages.ids.npy      the ids' hashes in order, above the row of each: 16 bytes a passage
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from r1_router.errors import DataError, KnowledgeBaseError
from r1_router.files import sha256_of

Row = dict[str, Any]
Rows = NDArray[np.int64]
IdTable = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class PassageStore:
    """The lines of one file: row n starts at byte `starts[n]`, and `starts` has the file's size at its end."""

    path: Path
    starts: Rows
    file: BinaryIO  # read at offsets: a map of it would count as this process's memory, 64 kB for each passage
    ids: IdTable | None = None

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, row: int) -> Row:
        """Row number `row`, from 0; raises DataError where the line is no passage."""
        start, stop = self.starts[row : row + 2].tolist()
        return _passage(os.pread(self.file.fileno(), stop - start, start), self.path, row + 1)

    def __iter__(self) -> Iterator[Row]:
        """Every row in order."""
        with open(self.path, "rb") as file:
            for number, line in enumerate(file, start=1):
                yield _passage(line, self.path, number)

    @property
    def sha256(self) -> str:
        """The file's checksum, taken anew each time."""
        return sha256_of(self.path)

    def rows(self, start: int, stop: int) -> list[Row]:
        """The rows from `start` until before `stop`, read in order."""
        with open(self.path, "rb") as file:
            file.seek(self.starts[start])
            read = [file.read(self.starts[row + 1] - self.starts[row]) for row in range(start, stop)]
        return [_passage(line, self.path, number) for number, line in enumerate(read, start=start + 1)]

    def row_of(self, passage_id: str) -> int:
        """The number of the row with that id; raises KeyError where there is none."""
        if self.ids is None:
            raise KnowledgeBaseError(f"{self.path} has no table of ids beside it: `r1-router build` makes one.")
        hashes, rows = self.ids
        wanted = np.uint64(_hash(passage_id))  # of the table's type, or all of it would be converted
        place = int(np.searchsorted(hashes, wanted))
        while place < len(self) and hashes[place] == wanted:
            if self[int(rows[place])]["id"] == passage_id:
                return int(rows[place])
            place += 1
        raise KeyError(passage_id)


def open_store(path: Path) -> PassageStore:
    """Open the file and map, where they stand beside it, its line starts and ids; else find its lines in one pass.

    Raises DataError where it is empty or missing, KnowledgeBaseError where what stands beside it is of another file.
    """
    if not path.is_file() or path.stat().st_size == 0:
        raise DataError(f"No passages at {path}: the file is missing or empty. Give one JSON object a line.")
    file = open(path, "rb")  # noqa: SIM115
    if not _starts_path(path).is_file():
        return PassageStore(path, _find_starts(path), file)
    starts = np.load(_starts_path(path), mmap_mode="r")
    if starts[-1] != path.stat().st_size:
        raise KnowledgeBaseError(f"{_starts_path(path)} belongs to another file than {path}. Remove it.")
    return PassageStore(path, starts, file, np.load(_ids_path(path), mmap_mode="r"))


def write_store(files: Sequence[Path], to: Path) -> PassageStore:
    """Check the passages of the files and write them as one store; it is whole once `to` is there.

    Holds 24 bytes a passage in memory. Raises DataError, naming file and line, for what is no passage and for an id
    that was used before.
    """
    stores = [open_store(path) for path in files]
    np.save(_ids_path(to), check_passages(*stores))
    starts, size, part = [np.zeros(0, dtype=np.int64)], 0, to.with_name(f".{to.name}.part")
    with open(part, "wb") as copy:
        for store in stores:
            starts.append(store.starts[:-1] + size)
            with open(store.path, "rb") as file:
                shutil.copyfileobj(file, copy, 1 << 20)
            if store is not stores[-1] and not _ends_a_line(store):
                copy.write(b"\n")
            size = copy.tell()
    np.save(_starts_path(to), np.concatenate([*starts, np.array([size])]))
    part.rename(to)
    return open_store(to)


def check_passages(*stores: PassageStore) -> IdTable:
    """The table of ids; raises DataError, naming the line, unless every line is a passage and every id is its own."""
    hashes = np.array(array("Q", (_hash(row["id"]) for store in stores for row in store)), dtype=np.uint64)
    rows = np.argsort(hashes, kind="stable").astype(np.uint64)
    hashes.sort(kind="stable")
    for place in np.flatnonzero(hashes[1:] == hashes[:-1]):
        (first, line), (second, again) = _locate(stores, int(rows[place])), _locate(stores, int(rows[place + 1]))
        if (used := first[line]["id"]) == second[again]["id"]:
            before = f"line {line + 1}" + (f" of {first.path}" if first is not second else "")
            raise DataError(f"{second.path}, line {again + 1}: id {used!r} was used by {before}; ids must differ.")
    return np.stack([hashes, rows])


def _locate(stores: Sequence[PassageStore], row: int) -> tuple[PassageStore, int]:
    """The store that a row of all of them together is in, and its number there."""
    for store in stores:
        if row < len(store):
            return store, row
        row -= len(store)
    raise IndexError(row)


def _ends_a_line(store: PassageStore) -> bool:
    return os.pread(store.file.fileno(), 1, int(store.starts[-1]) - 1) == b"\n"


def _find_starts(path: Path) -> Rows:
    starts = array("q", [0])
    with open(path, "rb") as file:
        for line in file:
            starts.append(starts[-1] + len(line))
    return np.array(starts, dtype=np.int64)


def _starts_path(path: Path) -> Path:
    return path.with_name(f"{path.stem}.starts.npy")


def _ids_path(path: Path) -> Path:
    return path.with_name(f"{path.stem}.ids.npy")


def _hash(passage_id: str) -> int:
    """64 bits; two of 53 million ids have the same with a chance of 1 in 10,000, so ids themselves are compared too."""
    return int.from_bytes(hashlib.blake2b(passage_id.encode("utf-8", "surrogatepass"), digest_size=8).digest())


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
