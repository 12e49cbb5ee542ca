"""One JSON record a line: append-safe, torn tails repaired, rewritten all or nothing.

A run that is killed can leave half a line at the end of its file. Such a tail has no newline, so it can be told
from a line that is whole and wrong: `repair_tail` cuts the first, `read` refuses the second.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from r1_router.errors import DataError
from r1_router.files import write_atomically

Record = dict[str, Any]


def read(path: str | Path) -> Iterator[Record]:
    """The records of `path` in order; blank lines are passed over, the bare token NaN is taken (Dyn-VQA has one).

    Raises DataError naming file and line, where a line is not a JSON object.
    """
    with open(path, "rb") as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                yield _parse(line, f"{path}, line {number}")


def append(path: str | Path, record: Mapping[str, Any], *, durable: bool = False) -> None:
    """Add one record as one line, after mending a torn tail; `durable` waits until the disk has it."""
    repair_tail(path)
    with open(path, "ab") as file:
        file.write(_line(record))
        file.flush()
        if durable:
            os.fsync(file.fileno())


def rewrite(path: str | Path, records: Iterable[Mapping[str, Any]]) -> None:
    """Replace `path` by these records; a reader sees the old file or the new one, never a part."""
    write_atomically(Path(path), b"".join(map(_line, records)))


def repair_tail(path: str | Path) -> int:
    """Make `path` end with a whole line, and return how many bytes were cut (0 when it was sound or is missing).

    A last record that lacks only its newline is kept and gets one.
    """
    if not os.path.exists(path) or os.path.getsize(path) == 0:
        return 0
    with open(path, "rb+") as file:
        tail = _last_line(file)
        if tail.endswith(b"\n"):
            return 0
        try:
            _parse(tail, str(path))
        except DataError:
            file.truncate(file.seek(-len(tail), os.SEEK_END))
            return len(tail)
        file.seek(0, os.SEEK_END)
        file.write(b"\n")
        return 0


def _last_line(file: Any, block: int = 65536) -> bytes:
    """The bytes after the last newline but one, read backwards so that a large file costs one block."""
    end = start = file.seek(0, os.SEEK_END)
    tail = b""
    while start > 0 and tail.rfind(b"\n", 0, -1) < 0:
        start = max(0, start - block)
        file.seek(start)
        tail = file.read(end - start)
    return tail[tail.rfind(b"\n", 0, -1) + 1 :]


def _line(record: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(record, ensure_ascii=False).encode() + b"\n"
    except UnicodeEncodeError:  # half of a surrogate pair, as a model may write: it has no bytes, only an escape
        return json.dumps(record).encode() + b"\n"


def _parse(line: bytes, place: str) -> Record:
    try:
        record = json.loads(line)
    except ValueError as error:
        raise DataError(f"{place}: not JSON ({error}).{_hint(line)}") from error
    if not isinstance(record, dict):
        hint = _hint(line) if isinstance(record, list) else ""
        raise DataError(f"{place}: expected a JSON object, found {type(record).__name__}.{hint}")
    return record


def _hint(line: bytes) -> str:
    if line.startswith(b"["):
        return " A list is not read here: write its objects one a line."
    return "" if line.endswith(b"\n") else " The line has no end: a run was cut short, and mends it by going on."
