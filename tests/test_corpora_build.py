"""Building a Wikipedia corpus: killed and gone on with, by several workers, beside the user's own files."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from r1_router import jsonl
from r1_router.corpora.build import Settings, build_corpus
from r1_router.corpora.pieces import Fault, Rules, Skip
from r1_router.corpora.wikiextractor import Extracted, input_files
from r1_router.errors import ConfigError, DataError
from test_corpora import many_documents, written

ROOT = Path(__file__).parents[1]
SETTINGS = Settings(shard_passages=7)


@pytest.fixture
def extracted(tmp_path: Path) -> Path:
    """Eight files in two folders and three packings; the third has faults in it."""
    root = tmp_path / "extracted"
    for number in range(8):
        raw = many_documents(10 * number, 3)
        if number == 2:
            raw += many_documents(20, 1) + b'<doc id="1">\nx\n</doc>\n<doc id="99" title="List of x">\nx\n</doc>\n'
        folder = root / ("AA" if number < 5 else "AB")
        folder.mkdir(parents=True, exist_ok=True)
        packings: list[tuple[str, Callable[[bytes], bytes]]] = [
            ("", bytes),
            (".gz", gzip.compress),
            (".bz2", bz2.compress),
        ]
        suffix, pack = packings[number % 3]
        written(folder / f"wiki_{number:02}{suffix}", pack(raw))
    written(root / ".listing", "no document")
    return root


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def rows(folder: Path) -> Iterator[dict[str, Any]]:
    return (row for path in sorted(folder.glob("passages-*.jsonl")) for row in jsonl.read(path))


def test_a_corpus_and_its_manifest(extracted: Path, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    corpus = build_corpus(
        Extracted(extracted), tmp_path / "c", SETTINGS, progress=lambda done, total: seen.append((done, total))
    )
    manifest, found = corpus.manifest, list(rows(tmp_path / "c"))
    assert seen == [(done, 8) for done in range(9)] and not corpus.reused
    assert [row["id"] for row in found] == [f"{10 * n + d}/{w}" for n in range(8) for d in range(3) for w in range(2)]
    assert all(row.keys() == {"id", "title", "text"} and row["text"].startswith(row["title"] + " ") for row in found)
    assert [shard.passages for shard in manifest.shards] == [7] * 6 + [6]
    for shard in manifest.shards:
        raw = (tmp_path / "c" / shard.name).read_bytes()
        assert (raw.count(b"\n"), len(raw), hashlib.sha256(raw).hexdigest()) == (
            shard.passages,
            shard.bytes,
            shard.sha256,
        )
    assert (manifest.counts["kept"], manifest.counts["passages"]) == (24, 48)
    assert {reason: n for reason, n in manifest.counts["skipped"].items() if n} == {Skip.LISTING.value: 1}
    assert {reason: n for reason, n in manifest.counts["failed"].items() if n} == {
        Fault.REPEATED.value: 1,
        Fault.NO_TITLE.value: 1,
    }
    assert manifest.failures == [
        f"AA/wiki_02.bz2, line 10: {Fault.REPEATED.value}",
        f"AA/wiki_02.bz2, line 13: {Fault.NO_TITLE.value}",
    ]
    assert json.loads((tmp_path / "c" / "manifest.json").read_text())["source"]["files"] == 8
    assert sorted(contents(tmp_path / "c")) == ["manifest.json", *(shard.name for shard in manifest.shards)]


def test_two_workers_give_the_bytes_of_one(extracted: Path, tmp_path: Path) -> None:
    build_corpus(Extracted(extracted), tmp_path / "one", SETTINGS)
    build_corpus(Extracted(extracted), tmp_path / "two", SETTINGS, workers=2)
    assert contents(tmp_path / "two") == contents(tmp_path / "one")


KILLED = """
import os, signal, sys
from pathlib import Path
from r1_router.corpora.build import Settings, build_corpus
from r1_router.corpora.wikiextractor import Extracted

def progress(done, total):
    if done == 3:
        os.kill(os.getpid(), signal.SIGKILL)

source, output, workers = sys.argv[1:]
build_corpus(Extracted(Path(source)), Path(output), Settings(shard_passages=7), workers=int(workers), progress=progress)
"""


@pytest.mark.parametrize("workers", [1, 2])
def test_a_killed_build_goes_on_to_the_same_bytes(workers: int, extracted: Path, tmp_path: Path) -> None:
    build_corpus(Extracted(extracted), tmp_path / "whole", SETTINGS)
    words = [sys.executable, "-c", KILLED, str(extracted), str(tmp_path / "c"), str(workers)]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    process = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    process.communicate(timeout=60)  # the pipe closes when the last worker is gone
    assert process.returncode == -signal.SIGKILL
    assert not (tmp_path / "c" / "manifest.json").exists()
    # What a kill between two writes leaves: passages that the journal does not know of, and half a line of it.
    last = sorted((tmp_path / "c").glob("passages-*.jsonl"))[-1]
    with last.open("ab") as shard, (tmp_path / "c" / ".work" / "journal.jsonl").open("ab") as journal:
        shard.write(b'{"id": "torn')
        journal.write(b'{"done": {"na')
    written(tmp_path / "c" / "passages-00009.jsonl", "of a file that the journal does not know of")
    seen: list[int] = []
    build_corpus(Extracted(extracted), tmp_path / "c", SETTINGS, progress=lambda done, total: seen.append(done))
    assert seen == [3, 4, 5, 6, 7, 8]
    assert contents(tmp_path / "c") == contents(tmp_path / "whole")


def test_a_second_run_finds_the_corpus_there(extracted: Path, tmp_path: Path) -> None:
    first = build_corpus(Extracted(extracted), tmp_path / "c", SETTINGS)
    before = contents(tmp_path / "c")
    (tmp_path / "c" / ".work").mkdir()  # as a kill right after the manifest leaves it
    again = build_corpus(Extracted(extracted), tmp_path / "c", SETTINGS, workers=2)
    assert again.reused and again.manifest == first.manifest and contents(tmp_path / "c") == before


def test_other_inputs_or_settings_never_replace_a_corpus(extracted: Path, tmp_path: Path) -> None:
    build_corpus(Extracted(extracted), tmp_path / "c", SETTINGS)
    before = contents(tmp_path / "c")
    with pytest.raises(ConfigError, match="other files or settings"):
        build_corpus(Extracted(extracted), tmp_path / "c", Settings(Rules.REFERENCE, shard_passages=7))
    path = extracted / "AB" / "wiki_06"
    written(path, path.read_bytes().replace(b"w1 ", b"w0 "))
    with pytest.raises(ConfigError, match="other files or settings"):
        build_corpus(Extracted(extracted), tmp_path / "c", SETTINGS)
    assert contents(tmp_path / "c") == before


def stop_after_two(done: int, total: int) -> None:
    if done == 2:
        raise KeyboardInterrupt


def test_a_stopped_build_goes_on_only_with_the_same_inputs(extracted: Path, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        build_corpus(Extracted(extracted), tmp_path / "c", SETTINGS, progress=stop_after_two)
    with pytest.raises(ConfigError, match="begun with other"):
        build_corpus(Extracted(extracted), tmp_path / "c")
    path = extracted / "AA" / "wiki_00"
    raw = path.read_bytes()
    written(path, raw + b"\n")
    with pytest.raises(ConfigError, match="begun with other"):
        build_corpus(Extracted(extracted), tmp_path / "c", SETTINGS)
    written(path, raw)
    shard = tmp_path / "c" / "passages-00000.jsonl"
    whole = shard.read_bytes()
    written(shard, whole[:-1])
    with pytest.raises(DataError, match="was cut"):
        written(tmp_path / "c" / "passages-00001.jsonl", b"")
        build_corpus(Extracted(extracted), tmp_path / "c", SETTINGS)


def test_a_cut_shard_of_a_finished_corpus_is_told(extracted: Path, tmp_path: Path) -> None:
    build_corpus(Extracted(extracted), tmp_path / "c", SETTINGS)
    shard = tmp_path / "c" / "passages-00003.jsonl"
    written(shard, shard.read_bytes()[:-1])
    with pytest.raises(DataError, match=r"passages-00003\.jsonl is not the shard"):
        build_corpus(Extracted(extracted), tmp_path / "c", SETTINGS)


def test_the_users_files_are_left_alone(extracted: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    written(tmp_path / "mine" / "notes.txt", "mine")
    with pytest.raises(ConfigError, match="not empty and no corpus"):
        build_corpus(Extracted(extracted), tmp_path / "mine")
    with pytest.raises(ConfigError, match="not empty and no corpus"):
        build_corpus(Extracted(extracted), tmp_path / "mine" / "notes.txt")
    with pytest.raises(ConfigError, match="outside of it"):
        build_corpus(Extracted(extracted), extracted / "corpus")
    with pytest.raises(DataError, match="not built"):
        build_corpus(Extracted(extracted), tmp_path / "mine" / "notes.txt" / "corpus")
    visible = {name: raw for name, raw in contents(tmp_path / "mine").items() if not name.endswith(".lock")}
    assert visible == {"notes.txt": b"mine"}


def test_inputs_that_cannot_be_a_corpus(extracted: Path, tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    for source in (tmp_path / "none", tmp_path / "missing"):
        with pytest.raises(DataError, match="No files"):
            build_corpus(Extracted(source), tmp_path / "c")
    written(tmp_path / "none" / "readme", "nothing of the kind")
    with pytest.raises(DataError, match=r"no passage.*readme, line 1: text outside of a document"):
        build_corpus(Extracted(tmp_path / "none"), tmp_path / "c")
    written(extracted / "AA" / "wiki_00.bz2", bz2.compress(b""))
    with pytest.raises(DataError, match=r"both AA/wiki_00 and AA/wiki_00\.bz2"):
        build_corpus(Extracted(extracted), tmp_path / "d")
    with pytest.raises(ConfigError, match="0 workers"):
        build_corpus(Extracted(extracted), tmp_path / "d", workers=0)


def test_files_come_in_the_order_of_their_paths(tmp_path: Path) -> None:
    for name in ("b/wiki_01", "b/wiki_00", "B/wiki_02", "a.gz", "a/z", ".hidden/x", "a/.y"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        written(tmp_path / name, b"")
    assert list(input_files(tmp_path)) == ["B/wiki_02", "a.gz", "a/z", "b/wiki_00", "b/wiki_01"]


def command(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "wiki_preprocess.py", *map(str, arguments)]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(words, cwd=ROOT / "src", env=environment, capture_output=True, text=True, timeout=60)


def test_the_published_command(extracted: Path, tmp_path: Path) -> None:
    done = command("--input", extracted, "--output", tmp_path / "c", "--workers", "2")
    assert done.returncode == 0, done.stderr
    assert "48 passages of 24 documents in 1 shards" in done.stdout and "skipped: 1 (list, index" in done.stdout
    build_corpus(Extracted(extracted), tmp_path / "same", workers=1)
    assert contents(tmp_path / "c") == contents(tmp_path / "same")
    refused = command("--input", extracted, "--output", tmp_path / "c", "--workers", "1", "--reference")
    assert refused.returncode == 1 and refused.stderr.strip().splitlines()[-1].startswith("error: ")
    assert "Traceback" not in refused.stderr
