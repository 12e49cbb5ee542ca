"""Which documents give passages, and the passages of one input file: the task of one worker."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from r1_router.corpora.wikiextractor import Document, Failure, Fault, Found, Rules, read_documents
from r1_router.corpora.windows import Windowing, titled_segments
from r1_router.files import sha256_of

FEWEST_WORDS = 8
"""A document with fewer words in its text gives no passage: the published rule of more than 7."""
FAILURES_LISTED = 20
KEPT, NOT_CLOSED, PASSAGES = "kept", "not closed", "passages"


class Skip(StrEnum):
    """Why a document that can be read gives no passage."""

    DISAMBIGUATION = "disambiguation"
    LISTING = "list, index or outline"
    REDIRECT = "redirect"
    SHORT = "at most 7 words"
    TITLE_ONLY = "nothing but its title"


def skip_reason(document: Document, rules: Rules = Rules.MENDED) -> Skip | None:
    """The first reason to leave the document out, None to keep it."""
    return next((skip for skip, applies in _CHECKS[rules] if applies(document)), None)


def passages(document: Document, windowing: Windowing) -> Iterator[dict[str, str]]:
    """The document's passages, title first; ids are the document's with the window's number, from 0."""
    for number, text in enumerate(titled_segments(document.text, document.title, windowing)):
        yield {"id": f"{document.id}/{number}", "title": document.title, "text": text}


@dataclass(frozen=True, slots=True)
class Task:
    """One input file: where it is, its name in the corpus, and where its passages go."""

    path: Path
    name: str
    output: Path
    rules: Rules
    windowing: Windowing


@dataclass(frozen=True, slots=True)
class Done:
    """What became of one input file: its checksum, how many of what, and the first failures by line."""

    name: str
    sha256: str
    counts: dict[str, int]
    failures: list[str]


def write_passages(task: Task) -> Done:
    """Write one input file's passages, document by document; raises DataError where it cannot be opened."""
    counts: Counter[str] = Counter()
    failures: list[str] = []
    with open(task.output, "wb") as file:
        for outcome in _outcomes(task):
            if isinstance(outcome, Failure):
                counts[outcome.fault.value] += 1
                failures.append(f"{task.name}, line {outcome.line}: {outcome.fault.value}")
            elif isinstance(outcome, Skip):
                counts[outcome.value] += 1
            else:
                rows = [_line(row) for row in passages(outcome, task.windowing)]
                file.writelines(rows)
                counts.update({KEPT: 1, PASSAGES: len(rows), NOT_CLOSED: int(not outcome.closed)})
    return Done(task.name, sha256_of(task.path), dict(counts), failures[:FAILURES_LISTED])


def _outcomes(task: Task) -> Iterator[Found | Skip]:
    """Each document as it is to be used: kept, skipped or failed."""
    seen: set[str] = set()
    for found in read_documents(task.path, task.rules):
        if isinstance(found, Failure):
            yield found
        elif skip := skip_reason(found, task.rules):
            yield skip
        elif found.id in seen:
            yield Failure(Fault.REPEATED, found.line)
        else:
            seen.add(found.id)
            yield found


def _line(row: dict[str, Any]) -> bytes:
    return json.dumps(row, ensure_ascii=False).encode() + b"\n"


def _is_disambiguation(document: Document) -> bool:
    return "(disambiguation" in document.title.lower()


def _is_listing(document: Document) -> bool:
    return re.match(r"(lists?|index|outline) of .", document.title, re.IGNORECASE) is not None


def _is_listing_to_the_reference(document: Document) -> bool:
    """The reference lets `Lists of` and small letters pass."""
    return re.match(r"(List|Index|Outline) of .", document.title) is not None


def _is_redirect(document: Document) -> bool:
    """`#REDIRECT ..`; without the sign only in capitals and on a line of its own, as articles begin with the word."""
    return re.match(r"#\s*(?i:redirect)\b|REDIRECT\b[^\n]*\Z", _body(document)) is not None


def _is_short(document: Document) -> bool:
    return len(document.text.split()) < FEWEST_WORDS


def _is_title_only(document: Document) -> bool:
    return not _body(document)


def _body(document: Document) -> str:
    """The text without the title that WikiExtractor puts on its first line."""
    first, _, rest = document.text.partition("\n")
    return rest.strip() if first.strip() == document.title.strip() else document.text


_CHECKS: dict[Rules, tuple[tuple[Skip, Callable[[Document], bool]], ...]] = {
    Rules.MENDED: (
        (Skip.DISAMBIGUATION, _is_disambiguation),
        (Skip.LISTING, _is_listing),
        (Skip.REDIRECT, _is_redirect),
        (Skip.SHORT, _is_short),
        (Skip.TITLE_ONLY, _is_title_only),
    ),
    Rules.REFERENCE: (
        (Skip.DISAMBIGUATION, _is_disambiguation),
        (Skip.LISTING, _is_listing_to_the_reference),
        (Skip.SHORT, _is_short),
    ),
}
