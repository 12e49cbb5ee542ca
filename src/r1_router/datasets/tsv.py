"""WebQA's pictures by id out of one huge table: lines of id, tab and base64, beside an index of their offsets."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Container, Iterable, Iterator
from pathlib import Path

from r1_router.datasets.pictures import MAX_BYTES, Pictures
from r1_router.datasets.places import Progress
from r1_router.errors import DataError

TABLE = "imgs.tsv"
INDEX_ENDING = ".lineidx"
ID_BASE = 10_000_000
"""A picture's id modulo this is its line in the index, counted from 0."""
_MAX_LINE = MAX_BYTES * 4 // 3 + 64


def from_tsv(source: Path, pictures: Pictures, progress: Progress) -> dict[str, str]:
    """Read the wanted pictures out of `source`, the table or its folder; gives those that failed, with the reason.

    With the index beside the table, each picture is one read; without it the table is read from end to end, one line
    at a time. Raises DataError for a table or an index that is not one, or where the two do not belong together.
    """
    table = source / TABLE if source.is_dir() else source
    if not table.is_file():
        raise DataError(f"--from: no file {table}.")
    wanted, faults = pictures.wanted(), dict[str, str]()
    total, index = len(wanted), table.with_suffix(INDEX_ENDING)
    lines = _lines_by_index(table, index, wanted) if index.is_file() else _lines_in_order(table, wanted)
    for done, (id_, encoded) in enumerate(lines, start=1):
        picture = wanted.pop(id_)
        if fault := _keep(pictures, picture, encoded):
            faults[picture] = fault
        progress(done, total)
        if not wanted:
            break
    return faults | dict.fromkeys(wanted.values(), f"no line in {table.name}")


def _lines_by_index(table: Path, index: Path, wanted: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    offsets = _offsets(index, wanted)
    with open(table, "rb") as file:
        for id_ in sorted(offsets, key=offsets.__getitem__):
            file.seek(offsets[id_])
            found, encoded = _split(file.readline(_MAX_LINE))
            if found != id_:
                raise DataError(
                    f"{index} does not belong to {table}: at the place it gives for {id_} stands {found[:20]!r}; "
                    "move the index away, and the table is read from end to end."
                )
            yield id_, encoded


def _offsets(index: Path, wanted: Iterable[str]) -> dict[str, int]:
    """Where the wanted lines start. The index is read line by line, the ids are compared when the lines are read."""
    places = {int(id_) % ID_BASE: id_ for id_ in wanted if id_.isdecimal()}
    offsets = {}
    with open(index, "rb") as lines:
        for place, line in enumerate(lines):
            if place in places:
                if not line.strip().isdigit():
                    raise DataError(f"{index}, line {place + 1}: expected a byte offset, found {line[:20]!r}.")
                offsets[places[place]] = int(line)
    return offsets


def _lines_in_order(table: Path, wanted: Container[str]) -> Iterator[tuple[str, bytes]]:
    with open(table, "rb") as file:
        while line := file.readline(_MAX_LINE):
            id_, encoded = _split(line)
            if not encoded or len(line) == _MAX_LINE:
                raise DataError(f"{table}: expected lines of id, tab and base64, found {line[:20]!r}.")
            if id_ in wanted:
                yield id_, encoded


def _split(line: bytes) -> tuple[str, bytes]:
    id_, _, encoded = line.partition(b"\t")
    return id_.decode("ascii", "replace"), encoded.strip()


def _keep(pictures: Pictures, picture: str, encoded: bytes) -> str | None:
    try:
        return pictures.keep(picture, base64.b64decode(encoded, validate=True))
    except binascii.Error as error:
        return f"not base64 ({error})"
