"""Wikipedia corpora: documents against the reference's own, and broken inputs of many kinds."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from r1_router import jsonl
from r1_router.corpora.build import REFERENCE, Settings
from r1_router.corpora.passages import passage_lines, skip_reason
from r1_router.corpora.pieces import Document, Failure, Fault, Rules, Skip
from r1_router.corpora.wikiextractor import read_documents
from r1_router.corpora.windows import Windowing
from r1_router.errors import DataError

GOLDEN = Path(__file__).parents[2] / "shared" / "golden" / "passages.jsonl"
needs_golden = pytest.mark.skipif(not GOLDEN.is_file(), reason="the golden data (../shared/golden) is not here")


def golden(kind: str) -> list[dict[str, Any]]:
    return [row for row in jsonl.read(GOLDEN) if row["type"] == kind]


def words(first: int, last: int, letter: str = "w") -> str:
    return " ".join(f"{letter}{number}" for number in range(first, last + 1))


def document(title: str = "Title", text: str = words(1, 12), **changes: Any) -> Document:
    return Document(**{"id": "1", "title": title, "text": text, "line": 1, **changes})


def texts(path: Path, settings: Settings) -> list[str]:
    """The passages of one file, in order."""
    kept = [one for one in read_documents(path, settings.rules) if isinstance(one, Document)]
    kept = [one for one in kept if skip_reason(one, settings.rules) is None]
    return [json.loads(line)["text"] for one in kept for line in passage_lines(one, settings.windowing)]


def written(path: Path, raw: str | bytes) -> Path:
    path.write_bytes(raw.encode() if isinstance(raw, str) else raw)
    return path


@needs_golden
def test_every_document_gives_the_references_passages(tmp_path: Path) -> None:
    """By the reference's rules; where it crashes, the document is a failure and the file goes on."""
    rows = golden("document")
    assert len(rows) > 50
    for row in rows:
        path = written(tmp_path / "wiki_00", row["raw"])
        assert texts(path, REFERENCE) == row["intended"].get("passages", []), row["kind"]
        if "raises" in row["intended"]:
            assert list(read_documents(path, Rules.REFERENCE)) == [Failure(Fault.BAD_HEADER, 1)], row["kind"]


MENDED = {
    "gt_in_text": ["Maths If a b c d e f g h then x > y and more words follow here after it"],
    "gt_entity": ["Maths If a b c d e f g h then x > y & more"],
    "inline_tag": ["Code The code tag <code>x = 1</code> is used in many many places"],
    "br_tag": ["Poem first line of it <br> second line of the poem is here now"],
    "gt_long": [
        f"Long {words(1, 60)} > {words(1, 39, 'v')}",
        f"Long {words(42, 60)} > {words(1, 80, 'v')}",
    ],
    "quote_in_title": [f'"Heroes" (album) {words(1, 12)}'],
    "entity_title": [f"AT&T {words(1, 12)}"],
    "gt_title": [f"A > B {words(1, 12)}"],
    "empty_title": [],
    "extra_attribute": [f"Right {words(1, 12)}"],
    "reordered": [f"Right {words(1, 12)}"],
    "no_title": [],
    "single_quotes": [f"T {words(1, 12)}"],
    "lists_of": [],
    "list_lower": [],
    "index_lower": [],
}
"""What the mended rules make of the golden documents that the reference misreads."""


@needs_golden
def test_the_mended_rules_differ_where_the_reference_breaks_and_nowhere_else(tmp_path: Path) -> None:
    settings = Settings(windowing=Windowing(duplicate_last=True))
    rows = {row["kind"]: row for row in golden("document")}
    assert rows.keys() > MENDED.keys()
    for kind, row in rows.items():
        found = texts(written(tmp_path / "wiki_00", row["raw"]), settings)
        assert found == MENDED.get(kind, row["intended"].get("passages")), kind
        if kind in MENDED:
            assert found != row["intended"].get("passages"), kind


GOOD = f'<doc id="7" url="https://u?curid=7" title="Good">\nGood\n\n{words(1, 12)}\n</doc>\n'
KEPT = Document("7", "Good", f"Good\n\n{words(1, 12)}", line=1)
BROKEN: dict[str, tuple[str | bytes, list[Fault]]] = {
    "no title": ('<doc id="1" url="u">\ntext\n</doc>\n', [Fault.NO_TITLE]),
    "a blank title": ('<doc id="1" url="u" title=" ">\ntext\n</doc>\n', [Fault.NO_TITLE]),
    "no id": ('<doc url="u" title="T">\ntext\n</doc>\n', [Fault.NO_ID]),
    "no attributes": ("<doc>\ntext\n</doc>\n", [Fault.NO_TITLE]),
    "no quotes": ("<doc id=1 title=T>\ntext\n</doc>\n", [Fault.BAD_HEADER]),
    "a header over two lines": ('<doc id="1" title="T\nU">\ntext\n</doc>\n', [Fault.BAD_HEADER]),
    "a header without an end": ('<doc id="1" title="T"\ntext\n</doc>\n', [Fault.BAD_HEADER]),
    "not UTF-8": (b'<doc id="1" url="u" title="Caf\xe9">\ntext\n</doc>\n', [Fault.NOT_UTF8]),
    "text between documents": ("one\n\ntwo\n", [Fault.OUTSIDE]),
    "a closing tag too many": ("</doc>\n", [Fault.OUTSIDE]),
    "a torn JSON line": ('{"id": "1", "title": "T", "te\n', [Fault.NOT_JSON]),
    "deep JSON": ('{"a":' + "[" * 100_000 + "\n", [Fault.NOT_JSON]),
    "JSON without text": ('{"id": "1", "title": "T"}\n', [Fault.NO_TEXT]),
    "JSON with a list for a title": ('{"id": "1", "title": ["T"], "text": "x"}\n', [Fault.NO_TITLE]),
    "half a surrogate pair": ('{"id": "1", "title": "T", "text": "\\ud83d"}\n', [Fault.NOT_UTF8]),
    "two faults": ('{"id": "1"}\nstray\n{"id": \n', [Fault.NO_TITLE, Fault.OUTSIDE, Fault.NOT_JSON]),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_document_costs_itself_alone(kind: str, tmp_path: Path) -> None:
    raw, faults = BROKEN[kind]
    raw = raw.encode() if isinstance(raw, str) else raw
    found = list(read_documents(written(tmp_path / "wiki_00", GOOD.encode() + raw + GOOD.encode())))
    assert [one.fault for one in found if isinstance(one, Failure)] == faults
    assert [(one.title, one.text) for one in found if isinstance(one, Document)] == [("Good", KEPT.text)] * 2
    assert found[0] == KEPT
    assert isinstance(found[1], Failure) and found[1].line == GOOD.count("\n") + 1


HEADERS = {
    'title="A" id="7" url="u"': "A",
    "id='7' title='A'": "A",
    'id = "7"  title = "A"': "A",
    'id="7" revid="9" lang="en" title="A"': "A",
    'id="7" title="A > B"': "A > B",
    'id="7" title="The "Big" One"': 'The "Big" One',
    'id="7" title=""Heroes""': '"Heroes"',
    'title=""Heroes" (album)" id="7"': '"Heroes" (album)',
    'id="7" title="Ender\'s Game"': "Ender's Game",
    'id="7" title="a = b"': "a = b",
    'id="7" title="AT&amp;T &quot;x&quot;"': 'AT&T "x"',
    'id="7" title="&lt;doc id=&gt;"': "<doc id=>",
}


@pytest.mark.parametrize("header", HEADERS)
def test_titles_survive_their_headers(header: str, tmp_path: Path) -> None:
    path = written(tmp_path / "wiki_00", f"<doc {header}>\ntext\n</doc>\n")
    assert list(read_documents(path)) == [Document("7", HEADERS[header], "text", line=1)]


def test_a_text_keeps_what_looks_like_a_mark(tmp_path: Path) -> None:
    marks = "a <doc> here\n<doc and\n<docs>\n</doc> there"
    entities = "x > y &lt;b&gt; &#65; &nosuch; a=1&para=2 &amp;lt;"
    path = written(tmp_path / "wiki_00", f'<doc id="7" title="A">\n{marks}\n{entities}\n</doc>\n')
    (found,) = read_documents(path)
    assert isinstance(found, Document)
    assert found.text == f"{marks}\nx > y <b> A &nosuch; a=1&para=2 &lt;"


def test_a_document_without_an_end_is_kept_and_said_to_be_so(tmp_path: Path) -> None:
    path = written(tmp_path / "wiki_00", '<doc id="1" title="A">\none\n<doc id="2" title="B">\ntwo</doc>\n')
    assert list(read_documents(path)) == [
        Document("1", "A", "one", line=1, closed=False),
        Document("2", "B", "two", line=3, closed=True),
    ]


def test_both_forms_and_all_packings_give_the_same_documents(tmp_path: Path) -> None:
    title, text = "Łódź &amp; 東京", "x > y &lt;b&gt;\nsecond line\n"
    tagged = f'\ufeff<doc id="7" url="u" title="{title}">\r\n{text}\r\n</doc>\r\n'.encode()
    lined = b"\n" + json.dumps({"id": 7, "revid": "1", "title": title, "text": text}).encode() + b"\r\n"
    expected = Document("7", "Łódź & 東京", "x > y <b>\nsecond line", line=1)
    for raw in (tagged, lined):
        for name, packed in {"a": raw, "a.bz2": bz2.compress(raw), "a.gz": gzip.compress(raw)}.items():
            (found,) = read_documents(written(tmp_path / name, packed))
            assert isinstance(found, Document)
            assert (found.id, found.title, found.text) == (expected.id, expected.title, expected.text)


def many_documents(first: int, count: int) -> bytes:
    """Documents of 111 words, so of two windows each."""
    noise = [hashlib.sha512(str(number).encode()).hexdigest() for number in range(first, first + count)]
    return "".join(
        f'<doc id="{first + number}" title="T{first + number}">\n{text} {words(1, 110)}\n</doc>\n'
        for number, text in enumerate(noise)
    ).encode()


@pytest.mark.parametrize("name", ["a.gz", "a.bz2"])
@pytest.mark.parametrize("damage", ["cut", "overwritten", "empty", "no archive"])
def test_a_damaged_archive_gives_what_stands_before_the_damage(name: str, damage: str, tmp_path: Path) -> None:
    raw = many_documents(0, 600)
    whole = gzip.compress(raw) if name == "a.gz" else bz2.compress(raw, compresslevel=1)  # level 1: blocks of 100 kB
    place = len(whole) * 2 // 3
    packed = {
        "cut": whole[:place],
        "overwritten": whole[:place] + b"\0" * 200 + whole[place + 200 :],
        "empty": b"",
        "no archive": raw,
    }[damage]
    found = list(read_documents(written(tmp_path / name, packed)))
    read = [one for one in found if isinstance(one, Document)]
    sound = 300 if damage in ("cut", "overwritten") else 0  # gzip notices damage a little later, by its nonsense
    assert read[:sound] == list(read_documents(written(tmp_path / "whole", raw)))[:sound]
    if (name, damage) != ("a.gz", "empty"):  # no bytes at all are an empty file to gzip
        assert found[-1] == Failure(Fault.TORN, found[-2].line if sound else 0)


def test_a_file_that_is_not_there_is_an_error_not_a_failure(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="wiki_99"):
        list(read_documents(tmp_path / "wiki_99"))


SKIPPED = {
    Skip.DISAMBIGUATION: [document("Mercury (disambiguation)"), document("X (Disambiguation page)")],
    Skip.LISTING: [
        document(title) for title in ("List of rivers", "LISTS OF rivers", "index of x", "Outline of law", "lists of y")
    ],
    Skip.REDIRECT: [
        document("Old name", "Old name\n\n#REDIRECT The new name of the very same thing now"),
        document("Old name", "# redirect the new name of the very same thing"),
        document("Old name", "REDIRECT The new name of the very same thing"),
    ],
    Skip.SHORT: [document(text=words(1, 7)), document(text=""), document("Movie director", "Movie director")],
    Skip.TITLE_ONLY: [document(words(1, 9), f"{words(1, 9)}\n\n")],
    None: [
        document(text=words(1, 8)),
        document("Disambiguation"),
        document("Listed building"),
        document("A list of rivers"),
        document("Redirect examination", f"Redirect examination\n\nRedirect examination is {words(1, 9)}"),
        document("REDIRECT", f"REDIRECT (band)\n{words(1, 9)}"),
        document("Twice", f"Twice\n\nTwice {words(1, 9)}"),
    ],
}


@pytest.mark.parametrize("reason", SKIPPED, ids=str)
def test_what_is_left_out_and_why(reason: Skip | None) -> None:
    assert [skip_reason(one) for one in SKIPPED[reason]] == [reason] * len(SKIPPED[reason])
