"""Reads what WikiExtractor writes, one document after the other: `<doc ..>` to `</doc>`, or a JSON object a line.

Plain, .bz2 or .gz. A document that cannot be read is a `Failure` in its place, and the file goes on.
"""

from __future__ import annotations

import html
import io
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from html.entities import html5
from pathlib import Path
from typing import Any

from r1_router.corpora.packed import opened
from r1_router.corpora.pieces import Document, Failure, Fault, Found, Piece, Rules
from r1_router.errors import DataError
from r1_router.files import sha256_of

CLOSING = "</doc>"
Numbered = tuple[int, str]
"""A line of a file and its number, from 1."""


@dataclass(frozen=True, slots=True)
class ExtractedFile:
    """One of the files that WikiExtractor wrote."""

    path: Path
    name: str
    reached: int
    unit: str = "line"

    def documents(self, rules: Rules) -> Iterator[Found]:
        return read_documents(self.path, rules)


@dataclass(frozen=True, slots=True)
class Extracted:
    """All that WikiExtractor wrote, as a source: a folder, or one file."""

    path: Path
    reader: str = "wikiextractor"
    wanted: str = "Give what WikiExtractor wrote"

    @property
    def total(self) -> int:
        return len(input_files(self.path))

    def identity(self) -> dict[str, Any]:
        return {"files": {name: sha256_of(path) for name, path in input_files(self.path).items()}}

    def pieces(self) -> Iterator[Piece]:
        for number, (name, path) in enumerate(input_files(self.path).items(), start=1):
            yield ExtractedFile(path, name, number)


def input_files(source: Path) -> dict[str, Path]:
    """The files to read by their path from `source`, in the order of those paths; hidden ones are left out.

    Raises DataError where there are none, or where one of them stands beside its own compressed copy.
    """
    if source.is_file():
        return {source.name: source}
    found = {path.relative_to(source): path for path in source.rglob("*") if path.is_file()}
    visible = {name: path for name, path in found.items() if not any(part.startswith(".") for part in name.parts)}
    if not visible:
        raise DataError(f"No files in {source}: give the folder, or the file, that WikiExtractor wrote.")
    files = {name.as_posix(): path for name, path in visible.items()}
    for name in files:
        if (plain := name.removesuffix(".bz2").removesuffix(".gz")) != name and plain in files:
            raise DataError(f"{source} holds both {plain} and {name}, the same documents twice: remove one of them.")
    return dict(sorted(files.items()))


def read_documents(path: Path, rules: Rules = Rules.MENDED) -> Iterator[Found]:
    """The documents of one file in order, read as they are asked for.

    Raises DataError where the file cannot be opened or the disk fails; bad contents are Failures.
    """
    reached = 0
    try:
        with io.TextIOWrapper(opened(path), "utf-8-sig", "surrogateescape") as lines:
            for found in _READERS[rules](enumerate(lines, start=1)):
                reached = found.line
                yield found
    except (OSError, EOFError, zlib.error) as error:
        # Decompressors raise an OSError of their own making, without an error number, for bad data.
        if isinstance(error, OSError) and error.errno is not None:
            raise DataError(f"{path}: cannot be read ({error}); once it can, the same command goes on.") from error
        yield Failure(Fault.TORN, reached)


@dataclass(slots=True)
class _Opened:
    """A document whose end is not reached yet."""

    line: int
    header: str
    text: list[str] = field(default_factory=list)

    def finished(self, *, closed: bool) -> Found:
        attributes = _attributes(self.header)
        if attributes is None:
            return Failure(Fault.BAD_HEADER, self.line)
        text = "".join(self.text).strip()
        if not closed and text.endswith(CLOSING):  # the mark shares the last line of the text
            text, closed = text.removesuffix(CLOSING), True
        return _document({**attributes, "text": text}, self.line, closed=closed)


def _read(lines: Iterable[Numbered]) -> Iterator[Found]:
    """Both forms. A document without an end reaches to the next header or to the end of the file."""
    opened: _Opened | None = None
    strayed = False  # a stretch outside of documents is one Failure, however many lines it has
    for number, line in lines:
        if header := _header(line, inside=opened is not None):
            if opened:
                yield opened.finished(closed=False)
            opened, strayed = _Opened(number, header), False
        elif opened and line.strip() == CLOSING:
            yield opened.finished(closed=True)
            opened = None
        elif opened:
            opened.text.append(line)
        elif line.lstrip().startswith("{"):
            strayed = False
            yield _from_json(line, number)
        elif line.strip() and not strayed:
            strayed = True
            yield Failure(Fault.OUTSIDE, number)
    if opened:
        yield opened.finished(closed=False)


def _header(line: str, *, inside: bool) -> str | None:
    """The header that begins in this line; inside a document only a whole line of attributes is one, as texts vary."""
    if inside:
        return line if line.startswith("<doc") and _attributes(line) else None
    found = _OPENING.search(line)
    return line[found.start() :] if found else None


_OPENING = re.compile(r"<doc(?=[\s>])")
_NAME = r"[A-Za-z_][\w:.-]*"
# WikiExtractor does not escape quotes: a value ends at the quote before another attribute or the end of the header.
_ATTRIBUTE = re.compile(
    rf"""\s+(?P<name>{_NAME})\s*=\s*(?P<quote>["'])(?P<value>.*?)(?P=quote)(?=\s+{_NAME}\s*=\s*["']|\s*\Z)"""
)


def _attributes(header: str) -> dict[str, str] | None:
    """The attributes of a `<doc ..>` line, in any order and either quotes; None where it is not made of them."""
    header = header.strip()
    if not header.endswith(">"):
        return None
    body = header[len("<doc") : -1]
    found: dict[str, str] = {}
    position = 0
    while attribute := _ATTRIBUTE.match(body, position):
        found.setdefault(attribute["name"], attribute["value"])
        position = attribute.end()
    return None if body[position:].strip() else found


def _from_json(line: str, number: int) -> Found:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return Failure(Fault.NOT_JSON, number)
    return _document(record, number)


def _document(record: Mapping[str, Any], line: int, *, closed: bool = True) -> Found:
    """A document out of either form's values, checked."""
    identity, title, text = record.get("id"), record.get("title"), record.get("text")
    if not isinstance(title, str) or not title.strip():
        return Failure(Fault.NO_TITLE, line)
    if not isinstance(identity, str | int) or not str(identity).strip():
        return Failure(Fault.NO_ID, line)
    if not isinstance(text, str):
        return Failure(Fault.NO_TEXT, line)
    if _LONE_SURROGATE.search(f"{identity}{title}{text}"):
        return Failure(Fault.NOT_UTF8, line)
    return Document(str(identity).strip(), _unescaped(title), _unescaped(text).strip(), line, closed)


# What bytes that are not UTF-8 are read as; JSON can spell it out too. It could not be written again.
_LONE_SURROGATE = re.compile(r"[\ud800-\udfff]")
_ENTITY = re.compile(r"&(?:(?P<name>[A-Za-z][A-Za-z0-9]*)|#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6});")


def _unescaped(text: str) -> str:
    """`text` with its entities as characters; those without a semicolon stay, as `&para` in an address is none."""
    return _ENTITY.sub(_character, text)


def _character(entity: re.Match[str]) -> str:
    name = entity["name"]
    return html5.get(f"{name};", entity[0]) if name else html.unescape(entity[0])


def _read_as_the_reference(lines: Iterable[Numbered]) -> Iterator[Found]:
    """The reference's way through a file; what crashes it is a Failure here."""
    number = 1
    for piece in "".join(line for _, line in lines).split(CLOSING):
        quoted, cut = piece.split('"'), piece.split(">")
        if "<doc" not in piece:
            if piece.strip():
                yield Failure(Fault.OUTSIDE, number)
        elif len(quoted) <= 5 or len(cut) < 2:
            yield Failure(Fault.BAD_HEADER, number)
        elif _LONE_SURROGATE.search(piece):
            yield Failure(Fault.NOT_UTF8, number)
        else:
            yield Document(quoted[1], quoted[5], cut[1].strip(), number)
        number += piece.count("\n")


_READERS = {Rules.MENDED: _read, Rules.REFERENCE: _read_as_the_reference}
