"""Which documents give passages, and the passages of one piece of the source: the task of one worker."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, replace
from pathlib import Path

from r1_router.corpora.pieces import Document, Failure, Fault, Found, Piece, Rules, Skip
from r1_router.corpora.windows import Windowing, titled_segments

FEWEST_WORDS = 8
"""A document with fewer words in its text gives no passage: the published rule of more than 7."""
FAILURES_LISTED = 20
KEPT, NOT_CLOSED, PASSAGES = "kept", "not closed", "passages"


def skip_reason(document: Document, rules: Rules = Rules.MENDED) -> Skip | None:
    """The first reason to leave the document out, None to keep it."""
    return next((skip for skip, applies in _CHECKS[rules] if applies(document)), None)


def passage_lines(document: Document, windowing: Windowing) -> list[str]:
    """The document's passages, title first, each a line of JSON; ids are the document's with the window's number."""
    head, middle = f'{{"id": "{_escaped(document.id)}/', f'", "title": "{_escaped(document.title)}", "text": "'
    texts = titled_segments(document.text, document.title, windowing, _escaped)
    return [f'{head}{number}{middle}{text}"}}\n' for number, text in enumerate(texts)]


@dataclass(frozen=True, slots=True)
class Task:
    """One piece of the source, and where its passages go."""

    piece: Piece
    output: Path
    rules: Rules
    windowing: Windowing


@dataclass(frozen=True, slots=True)
class Done:
    """What became of one piece: the ids kept, how many of what, and the first failures by their place."""

    name: str
    ids: list[str]
    counts: dict[str, int]
    failures: list[str]


def write_passages(task: Task) -> Done:
    """Write one piece's passages, document by document; raises DataError where it cannot be opened."""
    counts: Counter[str] = Counter()
    failures: list[str] = []
    ids: list[str] = []
    with open(task.output, "wb") as file:
        for outcome in _outcomes(task):
            if isinstance(outcome, Failure):
                counts[outcome.fault.value] += 1
                failures.append(f"{task.piece.name}, {task.piece.unit} {outcome.line}: {outcome.fault.value}")
            elif isinstance(outcome, Skip):
                counts[outcome.value] += 1
            else:
                rows = passage_lines(outcome, task.windowing)
                file.write("".join(rows).encode())
                ids.append(outcome.id)
                counts.update({KEPT: 1, PASSAGES: len(rows), NOT_CLOSED: int(not outcome.closed)})
    return Done(task.piece.name, ids, dict(counts), failures[:FAILURES_LISTED])


def without(done: Done, output: Path, repeated: Set[str]) -> Done:
    """Take the documents out of a piece's passages that an earlier piece has, and count them as failures."""
    lines = output.read_bytes().splitlines(keepends=True)
    kept = [line for line in lines if json.loads(line)["id"].rpartition("/")[0] not in repeated]
    output.write_bytes(b"".join(kept))
    counts = Counter(done.counts)
    counts.update({KEPT: -len(repeated), PASSAGES: len(kept) - len(lines), Fault.REPEATED.value: len(repeated)})
    told = [f"{done.name}, document {one}: {Fault.REPEATED.value}" for one in sorted(repeated)]
    ids = [one for one in done.ids if one not in repeated]
    return replace(done, ids=ids, counts=dict(counts), failures=[*done.failures, *told][:FAILURES_LISTED])


def _outcomes(task: Task) -> Iterator[Found | Skip]:
    """Each document as it is to be used: kept, skipped or failed."""
    seen: set[str] = set()
    for found in task.piece.documents(task.rules):
        if not isinstance(found, Document):
            yield found
        elif skip := skip_reason(found, task.rules):
            yield skip
        elif found.id in seen:
            yield Failure(Fault.REPEATED, found.line)
        else:
            seen.add(found.id)
            yield found


def line_of(row: Mapping[str, str]) -> str:
    """The row as `json.dumps` has it and a newline, at half its time: an encoder of strings alone needs no walk."""
    return "{" + ", ".join([f'"{name}": {_QUOTED(value)}' for name, value in row.items()]) + "}\n"


def _escaped(text: str) -> str:
    """As it stands between a JSON string's quotation marks."""
    return _QUOTED(text)[1:-1]


_QUOTED = json.JSONEncoder(ensure_ascii=False).encode


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
    return len(document.text.split(maxsplit=FEWEST_WORDS)) < FEWEST_WORDS


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
