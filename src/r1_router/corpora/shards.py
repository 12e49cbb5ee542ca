"""Passages in numbered files of equal length, appended to from a known end, so that a cut-short build can go on."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from r1_router.errors import DataError
from r1_router.files import sha256_of


@dataclass(frozen=True, slots=True)
class End:
    """Where the passages end: in which shard, after how many of its passages, at which byte of it."""

    shard: int = 0
    passages: int = 0
    size: int = 0


@dataclass(frozen=True, slots=True)
class Shard:
    """A finished shard as the manifest has it."""

    name: str
    passages: int
    bytes: int
    sha256: str


def shard_path(folder: Path, number: int) -> Path:
    """The file of shard `number`, from 0; names sort as numbers do."""
    return folder / f"passages-{number:05}.jsonl"


def append(folder: Path, end: End, source: Path, passages: int, limit: int) -> End:
    """Add the `passages` lines of `source` after `end`, at most `limit` to a shard; gives the new end.

    Returns once the disk has them: what a journal says of them then holds.
    """
    with open(source, "rb") as lines:
        while passages:
            if end.passages == limit:
                end = End(end.shard + 1)
            count = min(passages, limit - end.passages)
            with open(shard_path(folder, end.shard), "ab") as shard:
                if count == passages:
                    shutil.copyfileobj(lines, shard)  # all that is left
                else:
                    shard.writelines(islice(lines, count))
                shard.flush()
                os.fsync(shard.fileno())
                end = End(end.shard, end.passages + count, shard.tell())
            passages -= count
    return end


def rewind(folder: Path, end: End) -> None:
    """Cut off whatever stands after `end`; raises DataError where less than that is there."""
    current = shard_path(folder, end.shard)
    for path in folder.glob("passages-*.jsonl"):
        if path.name > current.name:
            path.unlink()
    size = current.stat().st_size if current.exists() else 0
    if size < end.size:
        raise DataError(f"{current} has {size} of {end.size} bytes: it was cut. Remove {folder} and build it again.")
    if size:
        os.truncate(current, end.size)


def finished_shards(folder: Path, end: End, limit: int) -> list[Shard]:
    """Every shard up to `end`, hashed."""
    shards = []
    for number in range(end.shard + 1):
        path = shard_path(folder, number)
        passages = end.passages if number == end.shard else limit
        shards.append(Shard(path.name, passages, path.stat().st_size, sha256_of(path)))
    return shards
