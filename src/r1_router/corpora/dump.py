"""Reads a MediaWiki dump (.xml, .xml.bz2 or .xml.gz) as articles in plain text.

A dump's markup is its own: `<` in a title or text is always escaped, so `<page>` and `</page>` mark pages and nothing
else does. Cutting there costs a broken page itself alone, where an XML parser would give up on all that follows.
A multistream dump is read by several workers at once, each its range of bytes; any other from front to end, and the
pages handed out.
"""

from __future__ import annotations

import codecs
import html
import io
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from r1_router.corpora.packed import opened, stream_at, stream_starts, unpacked
from r1_router.corpora.pieces import Document, Failure, Fault, Found, Piece, Rules, Skip
from r1_router.corpora.wikitext import CANONICAL, plain
from r1_router.errors import DataError
from r1_router.files import sha256_of

PIECE_BYTES = 4 << 20
"""Compressed bytes of a multistream dump in one piece, and bytes of XML of any other."""
PAGE, PAGE_END = b"<page>", b"</page>"
DAMAGE = (OSError, EOFError, zlib.error)
_TORN = b"damaged data"

_HEAD = re.compile(rb"<title>(?P<title>[^<]*)</title>(?:\s*<ns>(?P<ns>-?\d+)</ns>)?(?:\s*<id>(?P<id>\d+)</id>)?")
_NAMESPACE = re.compile(rb'<namespace key="(?:-2|6|14)"[^>]*>([^<]+)</namespace>')
_DISAMBIGUATION = re.compile(
    r"\{\{\s*(?:(?:\w+[ _])?disambig(?:uation)?(?:[ _]page)?|dab|hndis|geodis)\s*(?:\||\}\})", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Dump:
    """A dump as a source; `aligned`: each of its bzip2 streams holds whole pages, so that they can be had alone."""

    path: Path
    aligned: bool
    unseen: frozenset[str]
    piece_bytes: int = PIECE_BYTES
    reader: str = "dump"
    wanted: str = "Give a pages-articles dump of a wiki, as .xml, .xml.bz2 or .xml.gz"

    @property
    def total(self) -> int:
        return self.path.stat().st_size

    def identity(self) -> dict[str, Any]:
        return {"files": {self.path.name: sha256_of(self.path)}, "piece_bytes": self.piece_bytes}

    def pieces(self) -> Iterator[Piece]:
        return self._ranges() if self.aligned else self._batches()

    def _ranges(self) -> Iterator[Piece]:
        for start in range(0, self.total, self.piece_bytes):
            end = min(start + self.piece_bytes, self.total)
            yield Range(self.path, start, end, self.unseen)

    def _batches(self) -> Iterator[Piece]:
        """Whole pages, about `piece_bytes` of them at a time; the last batch says whether the file was torn."""
        kept, size, number = list[bytes](), 0, 1
        with open(self.path, "rb") as raw, unpacked(raw, self.path.suffix) as file:
            reading = _in_utf8(file, self.piece_bytes)
            while (more := self._next(reading)) is not None and more is not _TORN:
                kept.append(more)
                size += len(more)
                if size < self.piece_bytes:
                    continue
                xml = b"".join(kept)
                cut = xml.rfind(PAGE_END) + len(PAGE_END)
                if cut >= len(PAGE_END):
                    yield Batch(f"{self.path.name}, batch {number}", xml[:cut], raw.tell(), self.unseen)
                    xml, number = xml[cut:], number + 1
                kept, size = [xml], len(xml)
        yield Batch(f"{self.path.name}, batch {number}", b"".join(kept), self.total, self.unseen, more is _TORN)

    def _next(self, reading: Iterator[bytes]) -> bytes | None:
        """The next block, None at the end, `_TORN` where the data is damaged."""
        try:
            return next(reading, None)
        except DAMAGE as error:
            _raise_failing_disk(self.path, error)
            return _TORN


def open_dump(path: Path, piece_bytes: int = PIECE_BYTES) -> Dump:
    """See how the dump is cut and what the wiki calls its files and categories; raises DataError where it is none."""
    try:
        with opened(path) as file:
            head = next(_in_utf8(file, 1 << 18), b"")
        aligned = path.suffix == ".bz2" and _is_aligned(path)
    except FileNotFoundError as error:
        raise DataError(f"No dump at {path}: give the path of a .xml, .xml.bz2 or .xml.gz file.") from error
    except DAMAGE as error:
        raise DataError(f"{path} cannot be read from its start ({error}): fetch it again.") from error
    if b"<mediawiki" not in head and PAGE not in head:
        raise DataError(f"{path} begins with neither <mediawiki> nor <page>: give a pages-articles dump of a wiki.")
    own = {name.decode(errors="replace").lower() for name in _NAMESPACE.findall(head)}
    return Dump(path, aligned, CANONICAL | own, piece_bytes)


def _is_aligned(path: Path) -> bool:
    """Whether the second stream begins with a page, as in a multistream dump: its first holds the head alone."""
    try:
        _, end = stream_at(path, 0, at_most=16 << 20)
        if end is None or end >= path.stat().st_size:
            return False
        text, _ = stream_at(path, end, at_most=16 << 20)
    except DAMAGE as error:
        _raise_failing_disk(path, error)
        return False  # to be read from front to end, up to the damage
    return text.lstrip().startswith(PAGE)


def _in_utf8(file: IO[bytes], size: int) -> Iterator[bytes]:
    """The file as it is, or in UTF-8 where its first bytes say that it is in UTF-16."""
    read = cast(io.BufferedReader, file).read1  # one block of what is there: damage behind it costs nothing of it
    block = read(size)
    wide = block[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    decoder = codecs.getincrementaldecoder("utf-16")("replace")
    while block:
        yield decoder.decode(block).encode() if wide else block
        block = read(size)


def _raise_failing_disk(path: Path, error: BaseException) -> None:
    """Decompressors raise an OSError of their own making, without an error number, for bad data."""
    if isinstance(error, OSError) and error.errno is not None:
        raise DataError(f"{path}: cannot be read ({error}); once it can, the same command goes on.") from error


@dataclass(frozen=True, slots=True)
class Range:
    """The bzip2 streams that begin in a range of the file's bytes."""

    path: Path
    start: int
    end: int
    unseen: frozenset[str]
    unit: str = "page"

    @property
    def name(self) -> str:
        return f"{self.path.name} from byte {self.start}"

    @property
    def reached(self) -> int:
        return self.end

    def documents(self, rules: Rules) -> Iterator[Found | Skip]:
        before = 0
        for start in stream_starts(self.path, self.start, self.end):
            try:
                raw, _ = stream_at(self.path, start)
            except DAMAGE as error:
                _raise_failing_disk(self.path, error)
                yield Failure(Fault.TORN, before)
                continue
            for found in documents(raw, rules, self.unseen, before):
                before += 1
                yield found


@dataclass(frozen=True, slots=True)
class Batch:
    """Pages cut out of a file that can only be read from its start."""

    name: str
    xml: bytes
    reached: int
    unseen: frozenset[str]
    torn: bool = False
    unit: str = "page"

    def documents(self, rules: Rules) -> Iterator[Found | Skip]:
        yield from documents(self.xml, rules, self.unseen)
        if self.torn:
            yield Failure(Fault.TORN, self.xml.count(PAGE_END))


def documents(xml: bytes, rules: Rules, unseen: frozenset[str] = CANONICAL, before: int = 0) -> Iterator[Found | Skip]:
    """Every page of `xml` in order, as a document, a failure or a skip; `before` is the number of pages before it."""
    for number, page in enumerate(xml.split(PAGE)[1:], before + 1):
        end = page.rfind(PAGE_END)
        if end < 0:
            yield Failure(Fault.NO_END, number)
            continue
        try:
            yield _page(page[:end], number, rules, unseen)
        except UnicodeDecodeError:
            yield Failure(Fault.NOT_UTF8, number)


def _page(page: bytes, number: int, rules: Rules, unseen: frozenset[str]) -> Found | Skip:
    """One page; of several revisions the last, which is the newest."""
    head = page.partition(b"<revision>")[0]
    found = _HEAD.search(head)
    if not found or not (title := html.unescape(found["title"].decode()).strip()):
        return Failure(Fault.NO_TITLE, number)
    if found["ns"] not in (None, b"0"):
        return Skip.NAMESPACE
    if b"<redirect" in head:
        return Skip.REDIRECT
    if not found["id"]:
        return Failure(Fault.NO_ID, number)
    text = _text(page)
    if text is None:
        return Failure(Fault.NO_TEXT, number)
    if _DISAMBIGUATION.search(text):
        return Skip.DISAMBIGUATION
    body = plain(text, unseen)
    full = f"{title}\n\n{body}" if rules is Rules.REFERENCE else body
    return Document(found["id"].decode(), title, full, number)


def _text(page: bytes) -> str | None:
    opening = page.rfind(b"<text")
    start = page.find(b">", opening) + 1
    if opening < 0 or not start:
        return None
    if page[start - 2 : start] == b"/>":
        return ""
    end = page.rfind(b"</text>", start)
    return _unescaped(page[start:end]) if end >= 0 else None


def _unescaped(xml: bytes) -> str:
    """XML's own escapes only: others are the wikitext's. Raises UnicodeDecodeError for what is not UTF-8."""
    for escape, character in _ESCAPES:
        xml = character.join(xml.split(escape))  # `replace` at two thirds of its time: it looks through the text twice
    return xml.decode()


_ESCAPES = ((b"&lt;", b"<"), (b"&gt;", b">"), (b"&quot;", b'"'), (b"&amp;", b"&"))
"""The last is the last: what it uncovers is no escape of XML's."""
