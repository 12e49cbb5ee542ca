"""Pictures and your own text to passages, from real small files, and from broken ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from r1_router.corpora.documents import read_documents_of
from r1_router.corpora.image_pools import read_images
from r1_router.corpora.rows import Row, Skipped, write_rows
from r1_router.corpora.windows import Windowing
from r1_router.errors import DataError
from r1_router.retrieval.store import check_passages, open_store
from test_corpora import words, written

ROOT = Path(__file__).parents[1]
PICTURE = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360606060000000050001a5f645400000000049454e44ae426082"
)
"""A PNG of one pixel."""


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    folder = tmp_path / "pictures"
    (folder / "cats").mkdir(parents=True)
    for name in ("a.png", "cats/b_c.jpg"):
        written(folder / name, PICTURE)
    return folder


def test_an_mbeir_pool(pictures: Path, tmp_path: Path) -> None:
    candidates = [
        {"did": "9:1", "txt": "A cat.", "img_path": "cats/b_c.jpg", "modality": "image,text", "src_content": None},
        {"did": "9:2", "txt": None, "img_path": "a.png", "modality": "image"},
        {"did": "2:3", "txt": "Only words.", "img_path": None, "modality": "text"},
    ]
    pool = written(tmp_path / "pool.jsonl", "\n".join(map(json.dumps, candidates)))
    assert list(read_images(pool, pictures)) == [
        Row("9:1", "A cat.", "A cat.", "cats/b_c.jpg"),
        Row("9:2", "a", "a", "a.png"),
        Row("2:3", "Only words.", "Only words."),
    ]


BAD_CANDIDATES = {
    "a modality of its own": ({"did": "1:1", "modality": "video", "txt": "x"}, "modality 'video'"),
    "no picture": ({"did": "1:1", "modality": "image", "img_path": None}, "no picture in 'img_path'"),
    "no text": ({"did": "1:1", "modality": "text", "txt": ""}, "no caption in 'txt'"),
    "a missing file": ({"did": "1:1", "modality": "image", "img_path": "no.png"}, r"no file .*no\.png"),
    "a way out": ({"did": "1:1", "modality": "image", "img_path": "../out.png"}, "leads out of"),
    "an absolute way out": ({"did": "1:1", "modality": "image", "img_path": "/etc/passwd"}, "leads out of"),
    "a link out": ({"did": "1:1", "modality": "image", "img_path": "link.png"}, "leads out of"),
    "no picture at all": ({"did": "1:1", "modality": "image", "img_path": "page.png"}, "is no picture"),
    "a list": ([1], "expected a JSON object, found list"),
    "modalities as a list": ({"did": "1:1", "modality": ["image"], "txt": "x"}, r"modality \['image'\]"),
    "a picture's data for its path": ({"modality": "image", "img_path": "data:" + "iVBO" * 99}, "cannot be opened"),
    "a path that no file can have": ({"modality": "image", "img_path": "a\0.png"}, "cannot be opened"),
}


@pytest.mark.parametrize("kind", BAD_CANDIDATES)
def test_a_bad_candidate_costs_itself_alone(kind: str, pictures: Path, tmp_path: Path) -> None:
    written(tmp_path / "out.png", PICTURE)
    (pictures / "link.png").symlink_to(tmp_path / "out.png")
    written(pictures / "page.png", "<html>not found</html>")
    candidate, told = BAD_CANDIDATES[kind]
    good = {"did": "9:2", "txt": "A dot.", "img_path": "a.png", "modality": "image,text"}
    pool = written(pictures / "pool.jsonl", f"{json.dumps(candidate)}\n{json.dumps(good)}\n{{torn")
    bad, kept, torn = read_images(pool)
    assert isinstance(bad, Skipped) and kept == Row("9:2", "A dot.", "A dot.", "a.png")
    with pytest.raises(DataError, match=rf"pool\.jsonl, line 1: .*{told}"):
        write_rows(tmp_path / "o.jsonl", [bad])
    assert isinstance(torn, Skipped) and "line 3: not JSON" in torn.why


def test_a_folder_with_captions_beside_the_pictures(pictures: Path) -> None:
    written(pictures / "a.txt", "A dot,\nblack.\n")
    written(pictures / "cats" / "b_c.json", json.dumps({"caption": "A cat.", "title": "Cat"}))
    written(pictures / "lonely.png", PICTURE)
    written(pictures / "bad.png", PICTURE)
    written(pictures / "bad.json", '{"caption": ')
    written(pictures / "latin.png", PICTURE)
    written(pictures / "latin.txt", b"caf\xe9")
    found = list(read_images(pictures))
    assert [one for one in found if isinstance(one, Row)] == [
        Row("a.png", "a", "A dot, black.", "a.png"),
        Row("cats/b_c.jpg", "Cat", "A cat.", "cats/b_c.jpg"),
    ]
    skips = [one.why for one in found if isinstance(one, Skipped)]
    assert ["bad.json, line 1: not JSON" in skips[0], "latin.txt, line 1: not UTF-8" in skips[1]] == [True, True]
    assert "lonely.png: no caption" in skips[2] and len(skips) == 3


@pytest.mark.parametrize("name", ["captions.csv", "metadata.jsonl"])
def test_a_folder_with_a_captions_file(name: str, pictures: Path) -> None:
    text = "file_name,caption\na.png,A dot.\ncats/b_c.jpg,\n"
    if name.endswith(".jsonl"):
        text = '{"file_name": "a.png", "text": "A dot."}\n{"file_name": "cats/b_c.jpg"}\n'
    written(pictures / name, text)
    kept, skipped = read_images(pictures)
    assert kept == Row("a.png", "A dot.", "A dot.", "a.png")
    assert isinstance(skipped, Skipped) and "no caption" in skipped.why


def test_nothing_to_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="Nothing at"):
        read_images(tmp_path / "none")
    with pytest.raises(DataError, match="No pictures in"):
        list(read_images(tmp_path))
    with pytest.raises(DataError, match=r"Nothing to read.*\.md"):
        list(read_documents_of(tmp_path))
    written(tmp_path / "captions.csv", "")
    with pytest.raises(DataError, match="source is empty"):
        write_rows(tmp_path / "o.jsonl", read_images(tmp_path))


def pdf(*pages: str, title: str = "") -> bytes:
    """A PDF of these lines of text, one a page."""
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", ""]
    kids = []
    for text in pages:
        stream = f"BT /F1 12 Tf 20 100 Td ({text}) Tj ET"
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
        font = "<< /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >>"
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 900 200] /Contents {len(objects)} 0 R /Resources {font} >>"
        )
        kids.append(f"{len(objects)} 0 R")
    objects[1] = f"<< /Type /Pages /Kids [{' '.join(kids)}] /Count {len(kids)} >>"
    objects.append(f"<< /Title ({title}) >>")
    out, places = b"%PDF-1.4\n", []
    for number, text in enumerate(objects, start=1):
        places.append(len(out))
        out += f"{number} 0 obj\n{text}\nendobj\n".encode()
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    count = len(objects) + 1
    trailer = f"<< /Size {count} /Root 1 0 R /Info {len(objects)} 0 R >>"
    return (
        out + f"xref\n0 {count}\n0000000000 65535 f \n{table}trailer\n{trailer}\nstartxref\n{len(out)}\n%%EOF".encode()
    )


DOCUMENTS: dict[str, tuple[bytes, list[Row]]] = {
    "my_notes.txt": (
        b"one two three four five six",
        [Row("my_notes.txt/0", "my notes", "my notes one two three four five six")],
    ),
    "a.md": (
        b"# Cats\n**Cats** are [small](u) _animals_ that `purr` ![pic](p).\n\n"
        b"## Food\n```\n# not a heading at all\n```\n- fish and five more words\n",
        [
            Row("a.md/1/0", "Cats", "Cats Cats are small animals that purr pic."),
            Row("a.md/2/0", "Cats: Food", "Cats: Food # not a heading at all\n- fish and five more words"),
        ],
    ),
    "a.html": (
        b"<title>My  Cats</title><nav>menu</nav><script>x()</script>"
        b"<h1>Cats</h1><p>Cats &lt;3 fish,<br>and five more</p>",
        [Row("a.html/0", "My Cats", "My Cats Cats\nCats <3 fish,\nand five more")],
    ),
    "a.jsonl": (
        b'{"id": "x", "title": "T", "text": "one two three four five six"}\n',
        [Row("x/0", "T", "T one two three four five six")],
    ),
    "a.pdf": (
        pdf("one two three four five six", "seven eight nine ten eleven twelve", title="Numbers"),
        [
            Row("a.pdf/page-1/0", "Numbers", "Numbers one two three four five six"),
            Row("a.pdf/page-2/0", "Numbers", "Numbers seven eight nine ten eleven twelve"),
        ],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document(name: str, tmp_path: Path) -> None:
    need_packages()
    raw, expected = DOCUMENTS[name]
    assert list(read_documents_of(written(tmp_path / name, raw))) == expected


def need_packages() -> None:
    for package in ("lxml", "pypdf"):
        pytest.importorskip(package, reason=f"{package} is not installed")


def test_a_long_document_is_cut_in_windows(tmp_path: Path) -> None:
    path = written(tmp_path / "a.txt", words(1, 25))
    found = [row.text for row in read_documents_of(path, Windowing(10, 5)) if isinstance(row, Row)]
    assert found == [f"a {words(at, at + 9)}" for at in (1, 6, 11, 16)]


BAD_DOCUMENTS: dict[str, tuple[str, bytes, str]] = {
    "latin-1": ("a.txt", b"one\ncaf\xe9", r"a\.txt, line 2: not UTF-8"),
    "empty": ("a.md", b"", "source is empty"),
    "short": ("a.txt", b"one two", r"a\.txt: fewer than 6 words"),
    "an empty page": ("a.html", b"", r"a\.html: no HTML"),
    "a torn line": ("a.jsonl", b'{"text": "one', r"a\.jsonl, line 1: not JSON"),
    "no text": ("a.jsonl", b'{"title": "T"}', r"a\.jsonl, line 1: no string 'text'"),
    "no object": ("a.jsonl", b"[]", r"a\.jsonl, line 1: no string 'text'"),
    "a cut PDF": ("a.pdf", pdf("x")[:60], r"a\.pdf: no PDF that can be read"),
    "no PDF": ("a.pdf", b"<html>", r"a\.pdf: no PDF that can be read"),
    "a PDF without text": ("a.pdf", pdf(""), r"a\.pdf, page 1: no text in it"),
}


@pytest.mark.parametrize("kind", BAD_DOCUMENTS)
def test_a_bad_document_is_told_and_the_others_are_read(kind: str, tmp_path: Path) -> None:
    need_packages()
    name, raw, told = BAD_DOCUMENTS[kind]
    written(tmp_path / name, raw)
    with pytest.raises(DataError, match=told):
        write_rows(tmp_path / "o.out", read_documents_of(tmp_path / name))
    written(tmp_path / "z.txt", words(1, 8))
    assert [one.id for one in read_documents_of(tmp_path) if isinstance(one, Row)] == ["z.txt/0"]


def test_the_commands_write_what_a_knowledge_base_reads(pictures: Path, tmp_path: Path) -> None:
    written(pictures / "a.txt", "A dot.")
    written(tmp_path / "t.csv", "a,b\nx,1\n")
    written(tmp_path / "d.txt", words(1, 300))
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    for name, source, count in (
        ("images", pictures, 1),
        ("tables", tmp_path / "t.csv", 1),
        ("documents", tmp_path / "d.txt", 5),
    ):
        output = tmp_path / "kb" / f"{name}.jsonl"
        command = [sys.executable, "-m", "r1_router", "corpus", name, str(source), "-o", str(output)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        assert f"{count} passages" in done.stdout
        store = open_store(output)
        check_passages(store)
        assert len(store) == count
    refused = subprocess.run(
        [*command[:-3], "none", "-o", "x"], env=environment, capture_output=True, text=True, timeout=60
    )
    assert refused.returncode == 1 and "error: Nothing to read at none" in refused.stderr.replace("\n", " ")
