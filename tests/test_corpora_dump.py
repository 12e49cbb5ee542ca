"""Corpora straight from dumps: real ones where they are at hand, and dumps of every form, cut, damaged and killed."""

from __future__ import annotations

import bz2
import gzip
import importlib.util
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import escape

import pytest

from background import heeding_ctrl_c
from r1_router.corpora.build import REFERENCE, Settings, build_corpus
from r1_router.corpora.dump import Dump, documents, open_dump
from r1_router.corpora.pieces import Document, Failure, Fault, Found, Rules, Skip
from r1_router.corpora.seen import Seen
from r1_router.errors import ConfigError, DataError
from test_corpora import words, written
from test_corpora_build import ROOT, contents, rows

HEAD = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" xml:lang="bg">
  <siteinfo><namespaces>
    <namespace key="6" case="first-letter">Файл</namespace>
    <namespace key="14" case="first-letter">Категория</namespace>
  </namespaces></siteinfo>
"""
END = "</mediawiki>\n"
QUOTES = {'"': "&quot;"}


def page(number: int, title: str, text: str, *, namespace: int = 0, more: str = "") -> str:
    return (
        f"  <page>\n    <title>{escape(title)}</title>\n    <ns>{namespace}</ns>\n    <id>{number}</id>\n{more}"
        f'    <revision>\n      <id>9{number}</id>\n      <text bytes="1" xml:space="preserve">'
        f"{escape(text, QUOTES)}</text>\n    </revision>\n  </page>\n"
    )


def article(number: int) -> str:
    """Two windows of words, behind a noise that compresses badly, in 2,000 characters or so."""
    noise = random.Random(number).randbytes(600).hex()
    return page(number, f"T{number}", f"'''T{number}''' [[x|is]] {noise} {words(1, 110)}")


def multistream(pages: Sequence[str], a_stream: int = 5) -> bytes:
    parts = ["".join(pages[at : at + a_stream]) for at in range(0, len(pages), a_stream)]
    return b"".join(bz2.compress(part.encode()) for part in [HEAD, *parts, END])


def found_in(dump: Dump, rules: Rules = Rules.MENDED) -> list[Found | Skip]:
    return [found for piece in dump.pieces() for found in piece.documents(rules)]


PAGES: dict[str, tuple[str, Found | Skip]] = {
    "an article": (page(7, "A", "'''A''' is [[b|c]]."), Document("7", "A", "A is c.", 1)),
    "quotes and marks": (
        page(7, 'A "<b>" & c', 'x < y > z & "q" &lt;i&gt;'),
        Document("7", 'A "<b>" & c', 'x < y > z & "q" <i>', 1),
    ),
    "a redirect": (page(7, "A", "#REDIRECT [[B]]", more='    <redirect title="B" />\n'), Skip.REDIRECT),
    "a talk page": (page(7, "Talk:A", "text", namespace=1), Skip.NAMESPACE),
    "a template": (page(7, "Template:A", "text", namespace=10), Skip.NAMESPACE),
    "a disambiguation by template": (page(7, "A", "May be:\n* [[B]]\n{{disambiguation|geo}}"), Skip.DISAMBIGUATION),
    "a mention of one": (page(7, "A", "See {{about|x|y|A (disambiguation)}} here"), Document("7", "A", "See here", 1)),
    "no title": (page(7, "", "text"), Failure(Fault.NO_TITLE, 1)),
    "no id": (page(7, "A", "text").replace("<id>7</id>", ""), Failure(Fault.NO_ID, 1)),
    "no namespace": (page(7, "A", "text").replace("<ns>0</ns>", ""), Document("7", "A", "text", 1)),
    "no text": (page(7, "A", "text").replace("</text>", ""), Failure(Fault.NO_TEXT, 1)),
    "an empty text": (
        "<page><title>A</title><ns>0</ns><id>7</id><revision><text /></revision></page>",
        Document("7", "A", "", 1),
    ),
    "two revisions": (
        page(7, "A", "old").replace("  </page>", "<revision><text>new</text></revision></page>"),
        Document("7", "A", "new", 1),
    ),
    "no end": (page(7, "A", "text").replace("</page>", ""), Failure(Fault.NO_END, 1)),
}  # fmt: skip


@pytest.mark.parametrize("kind", PAGES)
def test_a_page_is(kind: str) -> None:
    xml, expected = PAGES[kind]
    good = Document("8", "B", "after it", 2)
    found = list(documents((xml + page(8, "B", "after it")).encode(), Rules.MENDED))
    assert found == [expected, good]


def test_bytes_that_are_not_utf8_cost_their_page_alone() -> None:
    bad = page(7, "A", "caf~").encode().replace(b"~", b"\xe9")
    found = list(documents(bad + page(8, "B", "x").encode(), Rules.MENDED))
    assert found == [Failure(Fault.NOT_UTF8, 1), Document("8", "B", "x", 2)]


def test_every_packing_gives_the_same_documents(tmp_path: Path) -> None:
    pages = [page(number, f"Ж{number}", f"[[Файл:x.png|y]] текст {number} [[Категория:Z]]") for number in range(1, 23)]
    plain = HEAD + "".join(pages) + END
    packed = {
        "a.xml": plain.encode(),
        "b.xml.gz": gzip.compress(plain.encode()),
        "c.xml.bz2": bz2.compress(plain.encode()),
        "d.xml.bz2": multistream(pages),
        "e.xml": plain.encode("utf-16"),
        "f.xml.bz2": bz2.compress(plain.encode("utf-16")),
        "g.xml.bz2": b"".join(bz2.compress(plain.encode()[at : at + 1000]) for at in range(0, 9000, 1000)),
    }
    packed["g.xml.bz2"] += bz2.compress(plain.encode()[9000:])  # streams that part pages, as parallel packers make
    for name, raw in packed.items():
        dump = open_dump(written(tmp_path / name, raw), piece_bytes=700)
        found = [one for one in found_in(dump) if isinstance(one, Document)]
        assert dump.aligned == (name == "d.xml.bz2"), name
        expected = [(f"{n}", f"Ж{n}", f"текст {n}") for n in range(1, 23)]
        assert [(one.id, one.title, one.text) for one in found] == expected, name
        assert len(list(dump.pieces())) > 2, name


@pytest.mark.parametrize("name", ["a.xml.bz2", "a.xml.gz", "many.xml.bz2"])
@pytest.mark.parametrize("damage", ["cut", "overwritten", "followed by nonsense"])
def test_damage_is_told_and_costs_what_it_must(name: str, damage: str, tmp_path: Path) -> None:
    pages = [article(number) for number in range(200)]
    plain = (HEAD + "".join(pages) + END).encode()
    whole = {"a.xml.gz": gzip.compress(plain), "a.xml.bz2": bz2.compress(plain, 1), "many.xml.bz2": multistream(pages)}[
        name
    ]
    place = len(whole) * 2 // 3
    raw = {
        "cut": whole[:place],
        "overwritten": whole[:place] + b"\0" * 50 + whole[place + 50 :],
        "followed by nonsense": whole + b"nonsense" * 20,
    }[damage]
    found = found_in(open_dump(written(tmp_path / name, raw)))
    kept = [one.id for one in found if isinstance(one, Document)]
    torn = [one for one in found if isinstance(one, Failure) and one.fault is Fault.TORN]
    if damage == "followed by nonsense":
        assert len(kept) == 200
        assert torn or name == "many.xml.bz2"  # no stream begins there: nothing that a range would read
    else:
        assert kept[:60] == [str(number) for number in range(60)] and torn
    if (name, damage) == ("many.xml.bz2", "overwritten"):
        assert len(kept) == 195 and kept[-1] == "199"


def test_what_is_no_dump_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="No dump at"):
        open_dump(tmp_path / "none.xml")
    for raw, name in ((b"", "a.xml"), (b"{}", "b.xml"), (bz2.compress(b"<html>"), "c.xml.bz2")):
        with pytest.raises(DataError, match="begins with neither"):
            open_dump(written(tmp_path / name, raw))
    with pytest.raises(DataError, match="cannot be read from its start"):
        open_dump(written(tmp_path / "d.xml.bz2", b"no archive"))
    redirects = page(1, "A", "#REDIRECT [[B]]", more='<redirect title="B" />')
    with pytest.raises(DataError, match=r"no passage came of it.*pages-articles"):
        build_corpus(open_dump(written(tmp_path / "e.xml", HEAD + redirects + END)), tmp_path / "c")


def test_the_references_rules_put_the_title_into_the_text(tmp_path: Path) -> None:
    path = written(tmp_path / "a.xml", HEAD + page(1, "Lists of a", words(1, 12)) + page(2, "B", words(1, 12)) + END)
    build_corpus(open_dump(path), tmp_path / "c", REFERENCE)
    assert [row["text"] for row in rows(tmp_path / "c")] == [
        f"Lists of a Lists of a\n\n{words(1, 12)}",
        f"B B\n\n{words(1, 12)}",
    ]
    build_corpus(open_dump(path), tmp_path / "d")
    assert [row["text"] for row in rows(tmp_path / "d")] == [f"B {words(1, 12)}"]


def test_an_id_of_an_earlier_piece_is_told_and_left_out(tmp_path: Path) -> None:
    pages = [article(number) for number in (1, 2, 3, 4, 5, 6, 7, 3, 8)]
    source = open_dump(written(tmp_path / "a.xml.bz2", multistream(pages, 2)), piece_bytes=100)
    manifest = build_corpus(source, tmp_path / "c", Settings(shard_passages=5)).manifest
    assert [row["id"] for row in rows(tmp_path / "c")] == [f"{n}/{w}" for n in range(1, 9) for w in range(2)]
    assert manifest.counts["failed"][Fault.REPEATED.value] == 1 and manifest.counts["kept"] == 8
    assert ", document 3: an id that an earlier document has" in manifest.failures[0]


def test_workers_fed_from_one_stream_give_the_bytes_of_one(tmp_path: Path) -> None:
    text = HEAD + "".join(article(number) for number in range(60)) + END
    source = open_dump(written(tmp_path / "a.xml.bz2", bz2.compress(text.encode())), piece_bytes=20_000)
    assert not source.aligned and len(list(source.pieces())) > 3
    for workers in (1, 2):
        build_corpus(source, tmp_path / f"{workers}", Settings(shard_passages=50), workers=workers)
    assert contents(tmp_path / "1") == contents(tmp_path / "2")


def test_ids_seen() -> None:
    seen = Seen()
    assert seen.add(["1", "07", "7", "x", str(1 << 40)]) == set()
    assert seen.add(["2", "7", "8", "y", str(1 << 40), "007"]) == {"7", str(1 << 40)}


RUN = [sys.executable, "-m", "r1_router", "corpus", "wikipedia"]
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT / "src")}


def dump_of(path: Path, pages: int) -> Path:
    return written(path, multistream([article(number) for number in range(pages)]))


@pytest.mark.parametrize("workers", [1, 2])
def test_killed_again_and_again_it_gives_the_bytes_of_one_run(workers: int, tmp_path: Path) -> None:
    """SIGKILL for the whole process group at random moments, start-up, pieces and the last step among them."""
    path, drawn = dump_of(tmp_path / "dump.xml.bz2", 3000), random.Random(workers)
    one = (
        "import sys; from pathlib import Path; from r1_router.corpora.build import Settings, build_corpus;"
        "from r1_router.corpora.dump import open_dump;"
        "build_corpus(open_dump(Path(sys.argv[1]), 100_000), Path(sys.argv[2]), "
        f"Settings(shard_passages=700), workers={workers})"
    )
    command = [sys.executable, "-c", one, str(path)]
    started = time.monotonic()
    subprocess.run([*command, str(tmp_path / "whole")], env=ENVIRONMENT, check=True, timeout=60)
    whole, kills = time.monotonic() - started, 0
    while kills < 8:
        process = subprocess.Popen([*command, str(tmp_path / "c")], env=ENVIRONMENT, start_new_session=True)
        try:
            assert process.wait(drawn.uniform(0, whole)) == 0
            shutil.rmtree(tmp_path / "c")  # done before its moment came: begun anew
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            kills += 1
    subprocess.run([*command, str(tmp_path / "c")], env=ENVIRONMENT, check=True, timeout=60)
    assert contents(tmp_path / "c") == contents(tmp_path / "whole")


def running(session: int) -> list[str]:
    """The processes of a session that are not mere zombies, which nobody may be there to bury."""
    stats = [path.read_text().rpartition(")")[2].split() for path in Path("/proc").glob("[0-9]*/stat")]
    return [fields[0] for fields in stats if int(fields[3]) == session and fields[0] != "Z"]


def test_ctrl_c_stops_workers_and_all_and_the_same_command_goes_on(tmp_path: Path) -> None:
    path = dump_of(tmp_path / "dump.xml.bz2", 12_000)
    command = [*RUN, str(path), "-o", str(tmp_path / "c"), "--workers", "2"]
    with heeding_ctrl_c():
        process = subprocess.Popen(command, env=ENVIRONMENT, start_new_session=True, stderr=subprocess.PIPE, text=True)
    journal = tmp_path / "c" / ".work" / "journal.jsonl"
    while not journal.exists() and process.poll() is None:
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=20)
    assert process.returncode == 130 and "goes on from here" in said and "Traceback" not in said
    for _ in range(200):
        if not (left := running(process.pid)):
            break
        time.sleep(0.05)
    assert left == []
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "24,000 passages of 12,000 documents" in done.stdout
    again = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=60)
    assert "was there already" in again.stdout


def test_a_plan_that_was_overwritten_is_refused(tmp_path: Path) -> None:
    source = open_dump(dump_of(tmp_path / "dump.xml.bz2", 20))

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_corpus(source, tmp_path / "c", progress=stop)
    written(tmp_path / "c" / ".work" / "plan.json", "{}")
    with pytest.raises(ConfigError, match="begun with other"):
        build_corpus(source, tmp_path / "c")


def real(name: str) -> Path:
    """A dump of gensim's test data; gensim itself is not imported."""
    found = importlib.util.find_spec("gensim")
    for folder in (found and found.submodule_search_locations) or ():
        if (path := Path(folder) / "test" / "test_data" / name).is_file():
            return path
    pytest.skip("gensim, whose wheel has real dumps in its test data, is not installed")


LEFT = ("[[", "]]", "{{", "}}", "{|", "|}", "<ref", "&lt;", "&nbsp;", "''", "<br")


@pytest.mark.parametrize(
    ("name", "documents_kept", "passages"),
    [
        ("enwiki-latest-pages-articles1.xml-p000000010p000030302-shortened.bz2", 96, 8000),
        ("enwiki-table-markup.xml.bz2", 4, 100),
        ("bgwiki-latest-pages-articles-shortened.xml.bz2", 1, 20),
    ],
)
def test_real_pages_keep_no_markup(name: str, documents_kept: int, passages: int, tmp_path: Path) -> None:
    manifest = build_corpus(open_dump(real(name)), tmp_path / "c").manifest
    assert manifest.counts["kept"] == documents_kept and manifest.counts["passages"] >= passages
    assert not any(manifest.counts["failed"].values())
    text = json.dumps([row["text"] for row in rows(tmp_path / "c")], ensure_ascii=False)
    assert {mark: text.count(mark) for mark in LEFT if mark in text} == {}
