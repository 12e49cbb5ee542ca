"""Reads a MediaWiki dump (.xml, .xml.bz2 or .xml.gz) as articles in plain text.

A dump's markup is its own: `<` in a title or text is always escaped, so `<page>` and `</page>` mark pages and nothing
else does. Cutting there costs a broken page itself alone, where an XML parser would give up on all that follows.
A multistream dump is read by several workers at once, each its range of bytes; any other from front to end, and the
pages handed out.
"""

from __future__ import annotations

import codecs
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from r1_router.corpora.packed import opened, stream_at, stream_starts
from r1_router.corpora.pieces import Document, Failure, Fault, Found, Piece, Rules, Skip
from r1_router.corpora.wikitext import CANONICAL, plain
from r1_router.errors import DataError
from r1_router.files import sha256_of

PIECE_BYTES = 4 << 20
"""Compressed bytes of a multistream dump in one piece, and characters of any other."""
PAGE, PAGE_END = "<page>", "</page>"
DAMAGE = (OSError, EOFError, zlib.error)

_HEAD = re.compile(r"<title>(?P<title>[^<]*)</title>(?:\s*<ns>(?P<ns>-?\d+)</ns>)?(?:\s*<id>(?P<id>\d+)</id>)?")
_NAMESPACE = re.compile(r'<namespace key="(?:-2|6|14)"[^>]*>([^<]+)</namespace>')
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
        """Whole pages, about `piece_bytes` characters at a time; the last batch says whether the file was torn."""
        with open(self.path, "rb") as raw, opened(self.path) as file:
            kept, number, torn = "", 0, False
            reading = _decoded(file, self.piece_bytes)
            while True:
                try:
                    more = next(reading, None)
                except DAMAGE as error:
                    _raise_failing_disk(self.path, error)
                    more, torn = None, True
                number += 1
                if more is None:
                    yield Batch(f"{self.path.name}, batch {number}", kept, self.total, self.unseen, torn)
                    return
                kept += more
                cut = kept.rfind(PAGE_END) + len(PAGE_END)
                if cut >= len(PAGE_END):
                    name = f"{self.path.name}, batch {number}"
                    yield Batch(name, kept[:cut], min(raw.tell(), self.total), self.unseen)
                    kept = kept[cut:]


def open_dump(path: Path, piece_bytes: int = PIECE_BYTES) -> Dump:
    """See how the dump is cut and what the wiki calls its files and categories; raises DataError where it is none."""
    try:
        with opened(path) as file:
            head = next(_decoded(file, 1 << 18), "")
        aligned = path.suffix == ".bz2" and _is_aligned(path)
    except FileNotFoundError as error:
        raise DataError(f"No dump at {path}: give the path of a .xml, .xml.bz2 or .xml.gz file.") from error
    except DAMAGE as error:
        raise DataError(f"{path} cannot be read from its start ({error}): fetch it again.") from error
    if "<mediawiki" not in head and PAGE not in head:
        raise DataError(f"{path} begins with neither <mediawiki> nor <page>: give a pages-articles dump of a wiki.")
    own = {name.lower() for name in _NAMESPACE.findall(head)}
    return Dump(path, aligned, CANONICAL | own, piece_bytes)


def _is_aligned(path: Path) -> bool:
    """Whether the second stream begins with a page, as in a multistream dump: its first holds the head alone."""
    _, end = stream_at(path, 0, at_most=16 << 20)
    if end is None or end >= path.stat().st_size:
        return False
    text, _ = stream_at(path, end, at_most=16 << 20)
    return text.lstrip().startswith(PAGE.encode())


def _decoded(file: IO[bytes], size: int) -> Iterator[str]:
    """The file as text, UTF-8 or UTF-16 by its first bytes; bytes that are not UTF-8 become lone surrogates."""
    block = file.read(size)
    wide = block[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    decoder = codecs.getincrementaldecoder("utf-16" if wide else "utf-8-sig")("replace" if wide else "surrogateescape")
    while block:
        yield decoder.decode(block)
        block = file.read(size)


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
            for found in documents(raw.decode("utf-8", "surrogateescape"), rules, self.unseen, before):
                before += 1
                yield found


@dataclass(frozen=True, slots=True)
class Batch:
    """Pages cut out of a file that can only be read from its start."""

    name: str
    xml: str
    reached: int
    unseen: frozenset[str]
    torn: bool = False
    unit: str = "page"

    def documents(self, rules: Rules) -> Iterator[Found | Skip]:
        yield from documents(self.xml, rules, self.unseen)
        if self.torn:
            yield Failure(Fault.TORN, self.xml.count(PAGE_END))


def documents(xml: str, rules: Rules, unseen: frozenset[str] = CANONICAL, before: int = 0) -> Iterator[Found | Skip]:
    """Every page of `xml` in order, as a document, a failure or a skip; `before` is the number of pages before it."""
    number, at = before, 0
    while (start := xml.find(PAGE, at)) >= 0:
        number += 1
        end = xml.find(PAGE_END, start)
        another = xml.find(PAGE, start + len(PAGE), end if end >= 0 else len(xml))
        if another >= 0 or end < 0:
            yield Failure(Fault.NO_END, number)
            at = another if another >= 0 else len(xml)
        else:
            yield _page(xml[start:end], number, rules, unseen)
            at = end


def _page(page: str, number: int, rules: Rules, unseen: frozenset[str]) -> Found | Skip:
    """One page; of several revisions the last, which is the newest."""
    head = page.partition("<revision>")[0]
    found = _HEAD.search(head)
    if not found or not (title := _unescaped(found["title"]).strip()):
        return Failure(Fault.NO_TITLE, number)
    if found["ns"] not in (None, "0"):
        return Skip.NAMESPACE
    if "<redirect" in head:
        return Skip.REDIRECT
    if not found["id"]:
        return Failure(Fault.NO_ID, number)
    text = _text(page)
    if text is None:
        return Failure(Fault.NO_TEXT, number)
    if not _is_unicode(page):
        return Failure(Fault.NOT_UTF8, number)
    if _DISAMBIGUATION.search(text):
        return Skip.DISAMBIGUATION
    body = plain(text, unseen)
    return Document(found["id"], title, f"{title}\n\n{body}" if rules is Rules.REFERENCE else body, number)


def _is_unicode(page: str) -> bool:
    """Whether there are no lone surrogates in it: they stand for bytes that were not UTF-8."""
    try:
        page.encode()
    except UnicodeEncodeError:
        return False
    return True


def _text(page: str) -> str | None:
    opening = page.rfind("<text")
    start = page.find(">", opening) + 1
    if opening < 0 or not start:
        return None
    if page[start - 2] == "/":
        return ""
    end = page.find("</text>", start)
    return _unescaped(page[start:end]) if end >= 0 else None


def _unescaped(xml: str) -> str:
    """XML's own escapes only: others are the wikitext's."""
    for escape, character in (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&#039;", "'"), ("&amp;", "&")):
        xml = xml.replace(escape, character)
    return xml
