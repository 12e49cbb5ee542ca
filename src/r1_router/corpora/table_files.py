"""The files that tables come in: the published sets' own, and any CSV, Parquet, Excel or HTML file."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from r1_router.corpora.pages import missing, parse_html, title_of_name
from r1_router.corpora.rows import Row, Skipped, read_text
from r1_router.corpora.table_records import tables_of_json
from r1_router.corpora.tables import Table, table_of
from r1_router.errors import DataError

Found = Table | Row | Skipped
TABFACT = ".html.csv"
TABFACT_TITLES = "table_to_page.json"
CELL_LIMIT = 10_000_000


def tables_in(path: Path, name: str) -> Iterator[Found]:
    """The tables of one file, whose ids begin with `name`; raises DataError where it is not what its name says."""
    ending = next(ending for ending in READERS if path.name.lower().endswith(ending))
    return READERS[ending](path, name)


def _from_csv(path: Path, name: str) -> Iterator[Found]:
    """Comma, semicolon, tab, bar or `#` between the cells; WikiTableQuestions writes a quote as `\\"`."""
    if path.name == TABFACT_TITLES:
        return
    text = read_text(path)
    first = text.partition("\n")[0]
    between = "#" if path.name.endswith(TABFACT) else max(",;\t|", key=first.count)
    escape = {"escapechar": "\\", "doublequote": False} if '\\"' in text else {}
    quoting = csv.QUOTE_NONE if between == "#" else csv.QUOTE_MINIMAL
    csv.field_size_limit(CELL_LIMIT)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=between, quoting=quoting, strict=True, **escape)  # type: ignore[arg-type]
    try:
        rows = list(reader)
    except csv.Error as error:
        raise DataError(
            f"{path}, line {reader.line_num}: no CSV ({error}); close its quotes or fetch it again."
        ) from error
    if not rows or not any(rows[0]):
        raise DataError(f"{path}, line 1: empty, where a header is wanted.")
    yield table_of(name, _title(path), rows[0], rows[1:])


def _title(path: Path) -> str:
    """The page a table is from, where its data set has a file that says so; else the file's name in words."""
    if path.name.endswith(TABFACT):
        for folder in path.parents[:3]:
            for titles in (folder / TABFACT_TITLES, folder / "data" / TABFACT_TITLES):
                if titles.is_file() and (page := _json(titles).get(path.name)):
                    return str(page[0])
    page_file = path.parents[0].name.removesuffix("-csv")
    if page_file != path.parents[0].name and len(path.parents) > 2:  # WikiTableQuestions: csv/200-csv, page/200-page
        about = path.parents[2] / "page" / f"{page_file}-page" / f"{path.stem}.json"
        if about.is_file():
            return str(_json(about).get("title", ""))
    return title_of_name(path)


@lru_cache(maxsize=8)
def _json(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(read_text(path))
    except ValueError as error:
        raise DataError(f"{path}: not JSON ({error}); fetch it again.") from error
    if not isinstance(record, dict):
        raise DataError(f"{path}: expected a JSON object, found {type(record).__name__}.")
    return record


def _from_parquet(path: Path, name: str) -> Iterator[Found]:
    try:
        import pyarrow.parquet as parquet
    except ModuleNotFoundError as error:
        raise missing("pyarrow") from error
    try:
        table = parquet.read_table(path)
    except (OSError, ValueError) as error:  # pyarrow's errors are of these kinds
        raise DataError(f"{path}: no Parquet ({error}); fetch it again.") from error
    rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
    yield table_of(name, _title(path), table.column_names, rows)


def _from_excel(path: Path, name: str) -> Iterator[Found]:
    """One table a sheet; its first row that is not empty is the header."""
    try:
        from openpyxl import load_workbook
    except ModuleNotFoundError as error:
        raise missing("openpyxl") from error
    try:
        book = load_workbook(path, read_only=True, data_only=True)
        sheets = [
            (sheet.title, [row for row in sheet.values if any(cell is not None for cell in row)]) for sheet in book
        ]
        book.close()
    except Exception as error:  # zip, XML and value errors of many kinds
        raise DataError(f"{path}: no Excel workbook ({error}); save it as .xlsx again.") from error
    for sheet, rows in sheets:
        if rows:
            yield table_of(f"{name}/{sheet}", _title(path), rows[0], rows[1:], section=sheet)


def _from_html(path: Path, name: str) -> Iterator[Found]:
    """Every table that holds no other; cells over several rows or columns are repeated in each."""
    page, title = parse_html(path)
    title = title or _title(path)
    tables = [table for table in page.iter("table") if table.find(".//table") is None]
    if not tables:
        raise DataError(f"{path}: no <table> in it; leave the file out, or read it with `corpus documents`.")
    for number, table in enumerate(tables):
        caption = table.find(".//caption")
        rows = _grid(table)
        if rows:
            said = " ".join(caption.text_content().split()) if caption is not None else ""
            yield table_of(f"{name}/{number}", title, rows[0], rows[1:], caption=said)


def _grid(table: Any) -> list[list[str]]:
    rows: list[list[str]] = []
    hanging: dict[int, tuple[int, str]] = {}  # by column: rows still to fill, and with what
    for tr in table.iter("tr"):
        row: list[str] = []
        cells = iter([cell for cell in tr if cell.tag in ("td", "th")])
        while True:
            if hanging.get(len(row), (0, ""))[0]:
                left, text = hanging[len(row)]
                hanging[len(row)] = left - 1, text
                row.append(text)
            elif (cell := next(cells, None)) is not None:
                for _ in range(_span(cell, "colspan")):
                    hanging[len(row)] = _span(cell, "rowspan") - 1, cell.text_content()
                    row.append(cell.text_content())
            else:
                break
        rows.append(row)
    return [row for row in rows if row]


def _span(cell: Any, name: str) -> int:
    value = cell.get(name, "1")
    return min(max(int(value), 1), 1000) if value.isdecimal() else 1


READERS: dict[str, Callable[[Path, str], Iterator[Found]]] = {
    ".csv": _from_csv,
    ".tsv": _from_csv,
    ".parquet": _from_parquet,
    ".xlsx": _from_excel,
    ".html": _from_html,
    ".htm": _from_html,
    ".json": tables_of_json,
    ".json.gz": tables_of_json,
    ".jsonl": tables_of_json,
    ".jsonl.gz": tables_of_json,
}
"""By how a file's name ends."""
