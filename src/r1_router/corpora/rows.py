"""What every reader shares: outcomes, decoding, paths that stay in their root, and the file that is written."""

from __future__ import annotations

import codecs
import gzip
import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from r1_router.corpora.passages import line_of
from r1_router.corpora.seen import Seen
from r1_router.errors import DataError

SKIPS_LISTED = 20


@dataclass(frozen=True, slots=True)
class Row:
    """A passage as a knowledge base reads it; `image` is a path from the root that the config names."""

    id: str
    title: str
    text: str
    image: str | None = None

    def to_json(self) -> dict[str, str]:
        row = {"id": self.id, "title": self.title, "text": self.text}
        return {**row, "image": self.image} if self.image is not None else row


@dataclass(frozen=True, slots=True)
class Skipped:
    """Something that gave no passage: where it is, what is wrong, and what mends it."""

    why: str


Outcome = Row | Skipped


@dataclass(frozen=True, slots=True)
class Written:
    """How many passages, how much was skipped, and the first skips."""

    rows: int
    skipped: int
    listed: list[str]

    def lines(self) -> list[str]:
        more = [f"... and {self.skipped - len(self.listed)} more"] if self.skipped > len(self.listed) else []
        told = [f"    {line}" for line in [*self.listed, *more]]
        return [f"{self.rows:,} passages", f"skipped: {self.skipped:,}", *told]


def write_rows(output: Path, outcomes: Iterable[Outcome]) -> Written:
    """Write the passages to one file, whole or not at all, in the memory of one; ids that come again are skipped.

    Raises DataError, with the first skip, where there is no passage: a file that stood there before stays.
    """
    rows, skipped, listed, seen = 0, 0, list[str](), Seen()
    output.parent.mkdir(parents=True, exist_ok=True)
    part = output.with_name(f".{output.name}.{os.getpid()}.part")
    try:
        with open(part, "w", encoding="utf-8", newline="\n") as file:
            for outcome in outcomes:
                if isinstance(outcome, Row) and seen.add([outcome.id]):
                    outcome = Skipped(f"{outcome.id}: an id that an earlier passage has; rename one of the two")
                if isinstance(outcome, Row):
                    file.write(line_of(outcome.to_json()))
                    rows += 1
                else:
                    skipped += 1
                    listed += [outcome.why] if len(listed) < SKIPS_LISTED else []
            file.flush()
            os.fsync(file.fileno())
        if not rows:
            raise DataError(f"{output}: no passage came of it. " + (listed[0] if listed else "The source is empty."))
        os.replace(part, output)
    finally:
        part.unlink(missing_ok=True)
    return Written(rows, skipped, listed)


def each_file(
    source: Path, suffixes: Iterable[str], read: Callable[[Path, str], Iterator[Outcome]]
) -> Iterator[Outcome]:
    """Read one file, or all of a folder with these endings in the order of their paths, each by its path from there.

    A file that cannot be read is a skip. Raises DataError where there is no such file.
    """
    wanted = tuple(suffixes)
    files = [source] if source.is_file() else sorted(path for path in source.rglob("*") if path.is_file())
    files = [path for path in files if path.name.lower().endswith(wanted)]
    if not files:
        raise DataError(
            f"Nothing to read at {source}: give a file, or a folder of files, ending in {', '.join(wanted)}."
        )
    for path in files:
        name = path.name if path == source else path.relative_to(source).as_posix()
        try:
            yield from read(path, name)
        except DataError as error:
            yield Skipped(str(error))


def read_text(path: Path) -> str:
    """A text file, .gz or not, in UTF-8 or marked UTF-16; raises DataError naming the line that is neither."""
    try:
        raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: cannot be read ({error}); fetch or copy it again.") from error
    wide = raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        return raw.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        kind = "UTF-16" if wide else "UTF-8"
        raise DataError(f"{path}, line {line}: not {kind} ({error.reason}); save the file as UTF-8.") from error


def json_lines(path: Path, text: str) -> Iterator[tuple[int, Any]]:
    """The value in each line of the file's text with the line's number, a skip for what is no JSON.

    A line ends at a line feed alone: JSON may hold what `splitlines` cuts at too, such as U+2028.
    """
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            value = Skipped(f"{path}, line {number}: not JSON ({error}); mend the line or fetch the file again")
        yield number, value


def text_of(record: dict[str, Any], names: Iterable[str]) -> str:
    """The first of these keys that holds a string or number, as a string; empty where none does."""
    for name in names:
        value = record.get(name)
        if isinstance(value, str | int | float) and str(value).strip():
            return str(value).strip()
    return ""


def inside(root: Path, path: str) -> Path | None:
    """`path` in `root`, None where it leads out of it, by `..`, as an absolute path or over a link."""
    found = root / path
    return found if found.resolve().is_relative_to(root.resolve()) else None
