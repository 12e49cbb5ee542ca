"""The seam between what a corpus is made of and the making of it: a source gives pieces, a piece gives documents."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol


class Rules(StrEnum):
    """How documents are read, and which of them give passages.

    REFERENCE keeps every oddity of the reference, for comparison with what it makes: of WikiExtractor's output the
    text ends at its first `>`, the title is the third quoted value of the header whatever its name, entities stay, only
    the `<doc>` form is known; of a dump the text begins with the title, as WikiExtractor has it.
    """

    MENDED = "mended"
    REFERENCE = "reference"


class Fault(StrEnum):
    """Why a document, or a stretch of a file, could not be read."""

    BAD_HEADER = "a <doc> line that is no list of attributes"
    NO_TITLE = "no title"
    NO_ID = "no id"
    NO_TEXT = "no text"
    NO_END = "a page without its end"
    NOT_JSON = "not JSON"
    NOT_UTF8 = "not UTF-8"
    OUTSIDE = "text outside of a document"
    REPEATED = "an id that an earlier document has"
    TORN = "compressed data cut short or damaged after this"


class Skip(StrEnum):
    """Why a document that can be read gives no passage."""

    NAMESPACE = "no article"
    DISAMBIGUATION = "disambiguation"
    LISTING = "list, index or outline"
    REDIRECT = "redirect"
    SHORT = "at most 7 words"
    TITLE_ONLY = "nothing but its title"


@dataclass(frozen=True, slots=True)
class Document:
    """One article, stripped; `line` is where it begins in its piece, `closed` whether its end was marked."""

    id: str
    title: str
    text: str
    line: int
    closed: bool = True


@dataclass(frozen=True, slots=True)
class Failure:
    """A document that could not be read, and where it begins: the line, or the number of the page, in its piece."""

    fault: Fault
    line: int


Found = Document | Failure


class Piece(Protocol):
    """What one worker does at a time; it is sent to another process, so it holds places rather than contents."""

    @property
    def name(self) -> str:
        """What failures call it."""

    @property
    def unit(self) -> str:
        """What `line` counts: lines or pages."""

    @property
    def reached(self) -> int:
        """How much of the source's `total` is done with once this is."""

    def documents(self, rules: Rules) -> Iterator[Found | Skip]: ...


class Source(Protocol):
    """What a corpus is made of; equal `identity` means equal pieces in equal order."""

    @property
    def path(self) -> Path: ...

    @property
    def reader(self) -> str:
        """What the manifest calls it."""

    @property
    def wanted(self) -> str:
        """What to give this reader, for the message where nothing came of it."""

    @property
    def total(self) -> int: ...

    def identity(self) -> dict[str, Any]:
        """Names, checksums and cuts: JSON that changes whenever the pieces do."""

    def pieces(self) -> Iterator[Piece]: ...
