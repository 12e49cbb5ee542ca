"""Tables to passages: title, section, caption, header and rows in words; long ones cut by rows, the head repeated."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from r1_router.corpora.rows import Outcome, Row, Skipped, each_file
from r1_router.errors import ConfigError

WORDS = 100
"""Words of rows in one passage, as in the published split of Open-WikiTable; the head comes on top."""


class Style(StrEnum):
    """PLAIN reads as lines with bars between the cells; MARKED has the marks that the published table encoder knows."""

    PLAIN = "plain"
    MARKED = "marked"


@dataclass(frozen=True, slots=True)
class Table:
    """One table, its cells as text; rows are as long as the header."""

    id: str
    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    section: str = ""
    caption: str = ""
    intro: str = ""


def table_of(
    identity: str, title: str, header: Sequence[object], rows: Iterable[Sequence[object]], **head: str
) -> Table:
    """A table of any values: cells on one line each, rows cut or filled to the header's length, empty ones left out."""
    names = tuple(map(_cell, header))
    cells = [tuple(map(_cell, row))[: len(names)] for row in rows]
    filled = tuple(row + ("",) * (len(names) - len(row)) for row in cells if any(row))
    return Table(identity, title, names, filled, **head)


def _cell(value: object) -> str:
    return "" if value is None or value != value else " ".join(str(value).split())


def linearised(table: Table, style: Style = Style.PLAIN, words: int = WORDS) -> Iterator[Row]:
    """The table's passages, each with the whole head and at most `words` words of rows, or one row that is longer."""
    if words < 1:
        raise ConfigError(f"{words} words of rows hold nothing: give 1 or more.")
    head, row_of = _FORMS[style]
    title = ", ".join(filter(None, (table.title, table.section or table.caption)))
    for number, rows in enumerate(_cut(table.rows, words)):
        yield Row(f"{table.id}/{number}", title, head(table) + "".join(map(row_of, rows)))


def _cut(rows: Sequence[Sequence[str]], words: int) -> Iterator[Sequence[Sequence[str]]]:
    start, total = 0, 0
    for number, row in enumerate(rows):
        length = sum(len(cell.split()) for cell in row)
        if total and total + length > words:
            yield rows[start:number]
            start, total = number, 0
        total += length
    yield rows[start:]


def _plain_head(table: Table) -> str:
    said = [table.title, table.section, table.caption if table.caption != table.title else "", table.intro]
    return f"{'. '.join(part.rstrip('.') for part in said if part)}\n{' | '.join(table.header)}"


def _plain_row(row: Sequence[str]) -> str:
    return f"\n{' | '.join(row)}"


def _marked_head(table: Table) -> str:
    parts = (("[Title]", table.title), ("[Section title]", table.section), ("[Caption]", table.caption))
    said = [f"{mark} {text}" for mark, text in parts if text]
    return " ".join([*said, f"[Header] {' [sep] '.join(table.header)} [Rows]"])


def _marked_row(row: Sequence[str]) -> str:
    return f" [Row] {' [sep] '.join(row)}"


_FORMS = {Style.PLAIN: (_plain_head, _plain_row), Style.MARKED: (_marked_head, _marked_row)}


def read_tables(source: Path, style: Style = Style.PLAIN, words: int = WORDS) -> Iterator[Outcome]:
    """Passages of all tables in a file, or in a folder of files, of the kinds that `table_files.READERS` names."""
    from r1_router.corpora.table_files import READERS, tables_in

    def read(path: Path, name: str) -> Iterator[Outcome]:
        for found in tables_in(path, name):
            if not isinstance(found, Table):
                yield found
            elif not found.rows:
                yield Skipped(f"{path}, table {found.id}: no rows under its header")
            else:
                yield from linearised(found, style, words)

    return each_file(source, READERS, read)
