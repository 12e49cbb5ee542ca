"""JSON lines: what is appended survives, torn tails are mended, rewrites are whole."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from r1_router import jsonl
from r1_router.errors import DataError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rows.jsonl"


def test_appended_records_read_back_in_order(path: Path) -> None:
    records = [{"id": 1, "text": "Köln\n\u2028 \x85 東京"}, {"id": 2, "deep": {"list": [1.5, None, True]}}]
    for record in records:
        jsonl.append(path, record, durable=True)
    assert list(jsonl.read(path)) == records
    assert path.read_bytes().count(b"\n") == 2


def test_blank_lines_a_byte_order_mark_and_nan_are_let_pass(path: Path) -> None:
    path.write_bytes(b'\xef\xbb\xbf{"a": 1}\n\n  \n{"a": NaN}\r\n')
    first, second = jsonl.read(path)
    assert first == {"a": 1}
    assert math.isnan(second["a"])


@pytest.mark.parametrize("line", [b"{oops}", b"[1, 2]", b"3", b'{"a": "\xff"}'])
def test_a_bad_line_is_named_by_file_and_number(path: Path, line: bytes) -> None:
    path.write_bytes(b'{"a": 1}\n\n' + line + b'\n{"a": 2}\n')
    with pytest.raises(DataError, match=r"rows\.jsonl, line 3"):
        list(jsonl.read(path))


@pytest.mark.parametrize("text", [b'[{"a": 1}]', b'[{"a": 1},\n{"a": 2}]\n'])
def test_a_list_is_told_how_to_be_written(path: Path, text: bytes) -> None:
    path.write_bytes(text)
    with pytest.raises(DataError, match=r"rows\.jsonl, line 1: .* write its objects one a line"):
        list(jsonl.read(path))


@pytest.mark.parametrize("before", [b"", b'{"a": 1}\n', b'{"long": "' + b"x" * 200_000 + b'"}\n'])
def test_a_tail_torn_at_any_byte_is_cut_and_the_rest_kept(path: Path, before: bytes) -> None:
    last = '{"b": "é", "c": [1, 2]}'.encode()
    for cut in range(1, len(last)):
        path.write_bytes(before + last[:cut])
        with pytest.raises(DataError, match="cut short"):
            list(jsonl.read(path))
        assert jsonl.repair_tail(path) == cut
        assert path.read_bytes() == before
        assert jsonl.repair_tail(path) == 0


def test_a_torn_tail_longer_than_a_block_is_cut_whole(path: Path) -> None:
    path.write_bytes(b'{"a": 1}\n{"b": "' + b"y" * 300_000)
    jsonl.repair_tail(path)
    assert path.read_bytes() == b'{"a": 1}\n'


def test_a_last_record_that_lacks_only_its_newline_is_kept(path: Path) -> None:
    path.write_bytes(b'{"a": 1}\n{"a": 2}')
    jsonl.append(path, {"a": 3})
    assert list(jsonl.read(path)) == [{"a": 1}, {"a": 2}, {"a": 3}]


def test_appending_mends_a_torn_tail_first(path: Path) -> None:
    path.write_bytes(b'{"a": 1}\n{"a": ')
    jsonl.append(path, {"a": 3})
    assert list(jsonl.read(path)) == [{"a": 1}, {"a": 3}]


def test_a_missing_or_empty_file_needs_no_mending(path: Path) -> None:
    assert jsonl.repair_tail(path) == 0
    path.touch()
    assert jsonl.repair_tail(path) == 0


def test_a_rewrite_may_read_the_file_it_replaces(path: Path) -> None:
    jsonl.rewrite(path, [{"n": 1}, {"n": 2}])
    jsonl.rewrite(path, ({"n": 10 * record["n"]} for record in jsonl.read(path)))
    assert list(jsonl.read(path)) == [{"n": 10}, {"n": 20}]


def test_a_rewrite_that_fails_leaves_the_old_file_and_nothing_else(path: Path) -> None:
    jsonl.rewrite(path, [{"n": 1}])

    def broken() -> Iterator[dict[str, Any]]:
        yield {"n": 2}
        raise RuntimeError("the source broke")

    with pytest.raises(RuntimeError, match="the source broke"):
        jsonl.rewrite(path, broken())
    assert list(jsonl.read(path)) == [{"n": 1}]
    assert list(path.parent.iterdir()) == [path]
