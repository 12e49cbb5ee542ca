"""Tables as JSON: Open-WikiTable, its retrieval edition, OTT-QA, and records of one's own in the same keys."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from r1_router.corpora.rows import Row, Skipped, json_lines, read_text, text_of
from r1_router.corpora.tables import Table, table_of
from r1_router.errors import DataError

IDS = ("id", "_id", "uid", "table_id")
TITLES = ("page_title", "title")
ROWS = ("rows", "data")
TEXTS = ("flattened", "text")
"""Text of a table that its data set has put in words already: it is taken as it is."""
PAGE_FILE = "table_to_page.json"
"""TabFact's list of titles: no table, and read beside the tables."""


def tables_of_json(path: Path, name: str) -> Iterator[Table | Row | Skipped]:
    """Objects a line, a list of them, a mapping of ids to them, one alone, or columns of values by row number.

    The last is what pandas writes, and Open-WikiTable's `splitted_tables.json`: there the row number is the id, as its
    questions name their tables by it.
    """
    if path.name == PAGE_FILE:
        return
    text = read_text(path)
    if not text.strip():
        raise DataError(f"{path}: empty; fetch it again.")
    lined = ".jsonl" in path.name
    for place, identity, record in _lines(path, name, text) if lined else _whole(path, name, text):
        yield record if isinstance(record, Skipped) else _table(f"{path}, {place}", identity, record)


def _lines(path: Path, name: str, text: str) -> Iterator[tuple[str, str, Any]]:
    yield from ((f"line {number}", f"{name}/{number}", record) for number, record in json_lines(path, text))


def _whole(path: Path, name: str, text: str) -> Iterator[tuple[str, str, Any]]:
    try:
        record = json.loads(text)
    except json.JSONDecodeError as error:
        raise DataError(f"{path}, line {error.lineno}: not JSON ({error.msg}); fetch the file again.") from error
    if isinstance(record, list):
        yield from ((f"record {number}", f"{name}/{number}", one) for number, one in enumerate(record))
    elif not isinstance(record, dict):
        raise DataError(f"{path}: expected JSON objects, found {type(record).__name__}.")
    elif any(key in record for key in TEXTS + ROWS) and all(isinstance(value, dict) for value in record.values()):
        columns = list(record.items())
        for number in columns[0][1]:
            yield f"row {number}", number, {column: values.get(number) for column, values in columns}
    elif any(key in record for key in ROWS):
        yield "its table", name.removesuffix(".json"), record
    else:
        yield from ((f"table {key}", key, one) for key, one in record.items())


def _table(place: str, identity: str, record: Any) -> Table | Row | Skipped:
    """A table of its header and rows, or a passage of the text that the record has in place of them."""
    if not isinstance(record, Mapping):
        return Skipped(f"{place}: expected a JSON object, found {type(record).__name__}")
    values = dict(record)
    identity, title = text_of(values, IDS) or identity, text_of(values, TITLES)
    if text := text_of(values, TEXTS):
        return Row(identity, title, text)
    header = values.get("header")
    rows = next((values[key] for key in ROWS if isinstance(values.get(key), list)), None)
    if not isinstance(header, list) or not header:
        return Skipped(f"{place}: no list 'header'; found {', '.join(map(repr, values))}")
    if rows is None or not all(isinstance(row, list) for row in rows):
        return Skipped(f"{place}: no list of lists 'rows' or 'data'; found {', '.join(map(repr, values))}")
    return table_of(
        identity,
        title,
        [_shown(cell) for cell in header],
        [[_shown(cell) for cell in row] for row in rows],
        section=text_of(values, ("section_title",)),
        caption=text_of(values, ("caption", "name")),
    )


def _shown(cell: Any) -> Any:
    """OTT-QA's tables with links have `[text, [links]]` for a cell."""
    return cell[0] if isinstance(cell, list) and len(cell) == 2 and isinstance(cell[1], list) else cell
