"""Tables to passages: the published forms and everyday files, and what is broken in them told by file and line."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from r1_router.corpora.rows import Outcome, Row, Skipped, write_rows
from r1_router.corpora.tables import Style, linearised, read_tables, table_of
from r1_router.errors import ConfigError, DataError
from test_corpora import written

WORLD = Path(__file__).parents[2] / "shared" / "ottqa_world" / "kb"
needs_world = pytest.mark.skipif(not WORLD.is_dir(), reason="the OTT-QA world (../shared/ottqa_world) is not here")


def rows(source: Path, **options: Any) -> list[Row]:
    found = list(read_tables(source, **options))
    assert all(isinstance(one, Row) for one in found), found
    return [one for one in found if isinstance(one, Row)]


def why(outcomes: list[Outcome]) -> str:
    """The one skip."""
    (skipped,) = [one for one in outcomes if isinstance(one, Skipped)]
    return skipped.why


CITIES = table_of("t", "Cities", ["Name", "In 2020"], [["Oslo", 1], ["Bergen", None], [None, None]], section="North")


def test_a_table_in_words() -> None:
    (row,) = linearised(CITIES)
    assert row == Row("t/0", "Cities, North", "Cities. North\nName | In 2020\nOslo | 1\nBergen | ")
    (marked,) = linearised(CITIES, Style.MARKED)
    assert marked.text == (
        "[Title] Cities [Section title] North [Header] Name [sep] In 2020 [Rows] [Row] Oslo [sep] 1 [Row] Bergen [sep] "
    )


@pytest.mark.parametrize("style", Style)
def test_a_long_table_is_cut_between_rows_and_its_head_repeated(style: Style) -> None:
    table = table_of("t", "Cities", ["Name", "Note"], [[f"city{n}", "a b c"] for n in range(40)], caption="Of note")
    found = list(linearised(table, style, words=20))
    assert [row.id for row in found] == [f"t/{n}" for n in range(8)]
    head = found[0].text[: found[0].text.index("city0")]
    assert all(row.text.startswith(head) for row in found)
    assert [row.text.count("city") for row in found] == [5] * 8
    assert all(f"city{n} " in found[n // 5].text for n in range(40))
    with pytest.raises(ConfigError, match="0 words"):
        list(linearised(table, style, words=0))


def test_a_row_longer_than_a_passage_stands_alone() -> None:
    table = table_of("t", "T", ["a"], [["x"], ["y " * 30], ["z"]])
    assert len(list(linearised(table, words=5))) == 3


def test_open_wikitable(tmp_path: Path) -> None:
    """Columns by row number, as pandas writes them; the number is what the questions name."""
    records = {
        "original_table_id": {"0": "2-1", "1": "2-1"},
        "page_title": {"0": "Cup", "1": "Cup"},
        "header": {"0": ["a"], "1": ["a"]},
        "rows": {"0": [["x"]], "1": [["y"]]},
        "flattened": {"0": "[Title] Cup [Rows] [Row] x", "1": "[Title] Cup [Rows] [Row] y"},
    }
    path = written(tmp_path / "splitted_tables.json", json.dumps(records))
    assert rows(path) == [
        Row("0", "Cup", "[Title] Cup [Rows] [Row] x"),
        Row("1", "Cup", "[Title] Cup [Rows] [Row] y"),
    ]


def test_its_retrieval_edition(tmp_path: Path) -> None:
    line = {"_id": "table_7", "title": "Cup", "text": "Cup | a : x"}
    assert rows(written(tmp_path / "corpus_linearized.jsonl", json.dumps(line))) == [
        Row("table_7", "Cup", "Cup | a : x")
    ]


def test_tabfact(tmp_path: Path) -> None:
    (tmp_path / "data" / "all_csv").mkdir(parents=True)
    written(tmp_path / "data" / "all_csv" / "2-1.html.csv", 'team#note\nlyon#"a", b\nnice#c\n')
    written(tmp_path / "data" / "table_to_page.json", json.dumps({"2-1.html.csv": ["1994 Cup", "https://u"]}))
    (row,) = rows(tmp_path)
    assert row.title == "1994 Cup"
    assert row.text == '1994 Cup\nteam | note\nlyon | "a", b\nnice | c'


def test_wikitablequestions(tmp_path: Path) -> None:
    (tmp_path / "csv" / "200-csv").mkdir(parents=True)
    (tmp_path / "page" / "200-page").mkdir(parents=True)
    path = written(tmp_path / "csv" / "200-csv" / "7.csv", '"a","b"\n"x \\"y\\"","1,000"\n')
    written(tmp_path / "page" / "200-page" / "7.json", json.dumps({"title": "Page of it", "url": "u"}))
    (row,) = rows(path)
    assert row.text == 'Page of it\na | b\nx "y" | 1,000'


def test_ottqa_with_links_and_plain(tmp_path: Path) -> None:
    linked = {"uid": "A_0", "title": "A", "header": [["h", []]], "data": [[["x", ["/wiki/X"]]]], "section_title": "S"}
    plain = {"A_0": {"title": "A", "header": ["h"], "data": [["x"]], "section_title": "S"}}
    for name, record in (("A_0.json", linked), ("all_plain_tables.json", plain)):
        assert rows(written(tmp_path / name, json.dumps(record))) == [Row("A_0/0", "A, S", "A. S\nh\nx")]


@needs_world
@pytest.mark.parametrize("name", ["tables.jsonl.gz", "tabfact_tables.jsonl.gz"])
def test_real_tables_lose_no_cell(name: str) -> None:
    lines = gzip.decompress((WORLD / name).read_bytes()).decode().splitlines()
    tables = {record["id"]: record for record in map(json.loads, lines)}
    found: dict[str, list[Row]] = {}
    for row in rows(WORLD / name):
        found.setdefault(row.id.rpartition("/")[0], []).append(row)
    assert found.keys() == tables.keys()
    for identity, record in list(tables.items())[:300]:
        lines = [line for row in found[identity] for line in row.text.split("\n")[2:]]
        width = len(record["header"])
        cells = [[" ".join(cell.split()) for cell in row[:width]] for row in record["rows"]]
        assert lines == [" | ".join(row) for row in cells if any(row)], identity


def test_everyday_files(tmp_path: Path) -> None:
    pytest.importorskip("openpyxl", reason="openpyxl is not installed")
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    pytest.importorskip("lxml", reason="lxml is not installed")
    from openpyxl import Workbook
    from pyarrow import parquet, table

    written(tmp_path / "a.csv", "\ufeffname,year\nOslo,1\nBergen,2\n")
    written(tmp_path / "b.csv", "name;year\nOslo;1\nBergen;2\n")
    written(tmp_path / "c.tsv", "name\tyear\nOslo\t1\nBergen\t2\n".encode("utf-16"))
    parquet.write_table(table({"name": ["Oslo", "Bergen"], "year": [1, 2]}), tmp_path / "d.parquet")
    book = Workbook()
    for values in ([], ["name", "year"], ["Oslo", 1], ["Bergen", 2]):
        book.active.append(values)
    book.save(tmp_path / "e.xlsx")
    cells = "<tr><th>name<th>year</tr><tr><td>Oslo<td rowspan=2>1<tr><td>Bergen</table>"
    written(tmp_path / "f.html", f"<title>P</title><table><tr><td><table><caption>C</caption>{cells}</table>")
    found = rows(tmp_path)
    assert [row.text.partition("\n")[2] for row in found] == [
        *["name | year\nOslo | 1\nBergen | 2"] * 5,
        "name | year\nOslo | 1\nBergen | 1",
    ]
    assert [row.id for row in found] == ["a.csv/0", "b.csv/0", "c.tsv/0", "d.parquet/0", "e.xlsx/Sheet/0", "f.html/0/0"]
    assert found[-1].title == "P, C"


BROKEN: dict[str, tuple[str, bytes, str]] = {
    "a torn JSON file": ("a.json", b'{"rows": [["x"', r"a\.json, line 1: not JSON .*fetch"),
    "a torn JSON line": ("a.jsonl", b'{"header": ["h"], "rows": [["x"', r"a\.jsonl, line 1: not JSON"),
    "an empty JSON file": ("a.json", b"", r"a\.json: empty"),
    "no header": ("a.jsonl", b'{"rows": [["x"]]}', r"a\.jsonl, line 1: no list 'header'; found 'rows'"),
    "no rows": ("a.jsonl", b'{"header": ["h"]}', r"a\.jsonl, line 1: no list of lists 'rows' or 'data'"),
    "a list for a table": ("a.jsonl", b"[1]", r"a\.jsonl, line 1: expected a JSON object, found list"),
    "a header alone": ("a.csv", b"a,b\n", r"a\.csv, table a\.csv: no rows"),
    "an empty CSV file": ("a.csv", b"", r"a\.csv, line 1: empty"),
    "an open quote": ("a.csv", b'a,b\n"x,1\ny,2\n', r"a\.csv, line 3: no CSV .*close its quotes"),
    "latin-1": ("a.csv", b"a,b\nx,1\ncaf\xe9,2\n", r"a\.csv, line 3: not UTF-8 .*save the file as UTF-8"),
    "a cut archive": ("a.jsonl.gz", gzip.compress(b"{}" * 99)[:-9], r"a\.jsonl\.gz: cannot be read"),
    "a cut Parquet file": ("a.parquet", b"PAR1 and no more", r"a\.parquet: no Parquet"),
    "a cut workbook": ("a.xlsx", b"PK\3\4 and no more", r"a\.xlsx: no Excel workbook"),
    "a page without tables": ("a.html", b"<p>text</p>", r"a\.html: no <table>"),
    "an empty page": ("a.html", b"", r"a\.html: no HTML"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_file_is_told_and_the_others_are_read(kind: str, tmp_path: Path) -> None:
    for package in ("openpyxl", "pyarrow", "lxml"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    name, raw, told = BROKEN[kind]
    written(tmp_path / name, raw)
    with pytest.raises(DataError, match=told):
        write_rows(tmp_path / "out.txt", read_tables(tmp_path / name))
    written(tmp_path / "z.csv", "a,b\nx,1\n")
    found = list(read_tables(tmp_path))
    assert why(found) and [one.id for one in found if isinstance(one, Row)] == ["z.csv/0"]


def test_tables_without_ids_in_files_of_one_name_are_told_apart(tmp_path: Path) -> None:
    for folder in ("north", "south"):
        (tmp_path / folder).mkdir()
        written(tmp_path / folder / "t.jsonl", '{"header": ["a\u2028b"], "rows": [["x"]]}\n')
    assert [row.id for row in rows(tmp_path)] == ["north/t.jsonl/1/0", "south/t.jsonl/1/0"]


def test_a_folder_without_tables_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"Nothing to read.*\.csv"):
        list(read_tables(tmp_path))


def test_the_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    output = written(tmp_path / "out" / "t.jsonl", "old\n")
    with pytest.raises(DataError, match="no passage"):
        write_rows(output, [Skipped("x.csv: bad")])
    assert output.read_text() == "old\n" and [path.name for path in output.parent.iterdir()] == ["t.jsonl"]
    twice = [Row("1", "T", 'a "b"\nc'), Row("1", "T", "again"), Row("2", "T", "é", "p.png")]
    done = write_rows(output, twice)
    assert (done.rows, done.skipped) == (2, 1) and "1: an id that an earlier passage has" in done.lines()[2]
    assert [json.loads(line) for line in output.read_text().splitlines()] == [
        {"id": "1", "title": "T", "text": 'a "b"\nc'},
        {"id": "2", "title": "T", "text": "é", "image": "p.png"},
    ]
