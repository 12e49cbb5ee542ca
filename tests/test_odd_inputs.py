"""Inputs that are sound but seldom, and commands that would harm what they read."""

from __future__ import annotations

import base64
import io
import zipfile
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner

from r1_router.corpora.commands import corpus_app
from r1_router.corpora.documents import read_documents_of
from r1_router.corpora.rows import Row
from r1_router.errors import ConfigError, DataError
from r1_router.pictures import FORMATS
from test_corpora import written
from test_pictures import gather, jpeg, lay

DOCUMENTS: dict[str, tuple[bytes, list[Row]]] = {
    "b.html": (
        b"<div>One<p>two</p>three</div><ul><li>four<ul><li>five</ul></ul><table><tr><td>six<td>seven</table>",
        [Row("b.html/0", "b", "b One\ntwo\nthree\nfour\nfive\nsix\nseven")],
    ),
    "b.jsonl": (
        '{"id": "x", "title": "T", "text": "one two three four\u2028five six"}\n'.encode(),
        [Row("x/0", "T", "T one two three four\u2028five six")],
    ),
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_words_are_neither_joined_nor_lost(name: str, tmp_path: Path) -> None:
    pytest.importorskip("lxml", reason="lxml is not installed")
    raw, expected = DOCUMENTS[name]
    assert list(read_documents_of(written(tmp_path / name, raw))) == expected


@pytest.mark.parametrize("command", ["documents", "tables"])
def test_an_output_among_what_is_read_is_refused(command: str, tmp_path: Path) -> None:
    source = written(tmp_path / "a.jsonl", '{"id": "x", "title": "T", "text": "one two three four five six"}\n')
    for read, output in ((tmp_path, tmp_path / "out.jsonl"), (source, source)):
        done = CliRunner().invoke(corpus_app, [command, str(read), "-o", str(output)])
        assert isinstance(done.exception, ConfigError) and "--output" in str(done.exception)
    assert [path.name for path in tmp_path.iterdir()] == ["a.jsonl"] and "one two" in source.read_text()


def test_a_locked_archive_is_named(tmp_path: Path) -> None:
    benchmark = lay(tmp_path, "infoseek", ["oven_01"])
    with zipfile.ZipFile(tmp_path / "s.zip", "w") as archive:
        archive.writestr("oven_01.jpg", jpeg("1"))
    raw = bytearray((tmp_path / "s.zip").read_bytes())
    for mark, flags in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        raw[raw.index(mark) + flags] |= 1  # says that a password is needed
    (tmp_path / "s.zip").write_bytes(raw)
    with pytest.raises(DataError, match=r"s\.zip: a broken archive .*password"):
        gather(tmp_path, benchmark, tmp_path / "s.zip")


@pytest.mark.parametrize("kind", FORMATS)
def test_a_server_takes_every_picture_that_a_local_base_opens(kind: str, tmp_path: Path) -> None:
    pytest.importorskip("pydantic", reason="pydantic is not installed")
    from r1_router.retrieval.service_requests import AskedImage, AskedQuery, Limits, with_pictures

    data = io.BytesIO()
    Image.new("RGB", (8, 8), "red").save(data, kind)
    image = AskedImage(data=base64.b64encode(data.getvalue()).decode())
    (query,) = with_pictures([AskedQuery(text="a", image=image)], Limits(), None, tmp_path)
    assert Path(str(query.image)).read_bytes() == data.getvalue()
