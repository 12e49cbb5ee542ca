"""The passage store: by row and by id, whole files only, and checked again only where a file has changed."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from index_worlds import LetterEncoder, write_corpus

from r1_router.errors import DataError, KnowledgeBaseError
from r1_router.retrieval import manifest as manifest_module
from r1_router.retrieval.build import build
from r1_router.retrieval.inputs import passage_files
from r1_router.retrieval.knowledge_base import load
from r1_router.retrieval.manifest import read_manifest, write_stamps
from r1_router.retrieval.store import PassageStore, open_store, write_store
from r1_router.types import TEXT, Query


@pytest.fixture
def store(tmp_path: Path) -> PassageStore:
    return write_store(passage_files(write_corpus(tmp_path, 300, shards=3)), tmp_path / "passages.jsonl")


def test_rows_are_found_by_number_and_by_id(store: PassageStore) -> None:
    assert len(store) == 300
    assert [row["id"] for row in store] == [f"p{n}" for n in range(300)]
    assert store.rows(98, 102) == [store[n] for n in range(98, 102)]
    assert [store.row_of(f"p{n}") for n in (0, 99, 100, 299)] == [0, 99, 100, 299]
    with pytest.raises(KeyError):
        store.row_of("p300")


def test_what_was_written_is_mapped_and_not_read(store: PassageStore) -> None:
    again = open_store(store.path)
    assert isinstance(again.starts, np.memmap) and isinstance(again.ids, np.memmap)
    assert again[250] == store[250]


def test_a_shard_without_a_last_newline_keeps_its_passage_apart(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path, 20, shards=2)
    first = corpus / "passages-00000.jsonl"
    first.write_text(first.read_text().rstrip("\n"))
    store = write_store(passage_files(corpus), tmp_path / "passages.jsonl")
    assert [row["id"] for row in store] == [f"p{n}" for n in range(20)]


def test_an_id_used_in_two_shards_is_named_with_both(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path, 20, shards=2)
    second = corpus / "passages-00001.jsonl"
    second.write_text(second.read_text() + json.dumps({"id": "p3", "title": "", "text": "x"}) + "\n")
    with pytest.raises(DataError, match=r"passages-00001.jsonl, line 11: id 'p3' was used by line 4 of .*00000"):
        write_store(passage_files(corpus), tmp_path / "passages.jsonl")
    assert not (tmp_path / "passages.jsonl").exists()


def test_ids_whose_hashes_agree_are_still_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("r1_router.retrieval.store._hash", lambda passage_id: len(passage_id))
    store = write_store([write_corpus(tmp_path, 30)], tmp_path / "passages.jsonl")
    assert [store.row_of(f"p{n}") for n in range(30)] == list(range(30))


def test_starts_of_another_file_are_refused(store: PassageStore) -> None:
    with open(store.path, "a") as file:
        file.write("{}\n")
    with pytest.raises(KnowledgeBaseError, match="belongs to another file"):
        open_store(store.path)


def test_a_file_that_has_not_changed_is_not_hashed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = build(write_corpus(tmp_path, 50), tmp_path / "base", TEXT, LetterEncoder()).folder
    hashed: list[str] = []
    real = manifest_module.sha256_of

    def counting(path: Path) -> str:
        hashed.append(path.name)
        return real(path)

    monkeypatch.setattr(manifest_module, "sha256_of", counting)
    load(folder, TEXT, LetterEncoder())
    assert hashed == []
    os.utime(folder / "dense.faiss")
    load(folder, TEXT, LetterEncoder())
    assert hashed == ["dense.faiss"]
    write_stamps(folder)
    load(folder, TEXT, LetterEncoder())
    assert hashed == ["dense.faiss"]


def test_a_change_that_keeps_size_and_time_is_found_by_a_thorough_check(tmp_path: Path) -> None:
    folder = build(write_corpus(tmp_path, 50), tmp_path / "base", TEXT, LetterEncoder()).folder
    path, before = folder / "dense.faiss", (folder / "dense.faiss").stat()
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    read_manifest(folder)
    with pytest.raises(KnowledgeBaseError, match=r"dense\.faiss is not the file"):
        read_manifest(folder, thorough=True)


def test_a_folder_of_the_first_version_is_still_read_and_not_built_again(tmp_path: Path) -> None:
    """It has no stamps, no line starts, no ids, and a manifest without an index or a version."""
    corpus = write_corpus(tmp_path, 50)
    folder = build(corpus, tmp_path / "base", TEXT, LetterEncoder()).folder
    record = json.loads((folder / "manifest.json").read_text())
    for name in ("passages.starts.npy", "passages.ids.npy"):
        (folder / name).unlink()
        del record["files"][name]
    (folder / "stamps.json").unlink()
    old = {key: record[key] for key in ("inputs", "rows", "files", "format")}
    (folder / "manifest.json").write_text(json.dumps(old))
    assert build(corpus, folder, TEXT, LetterEncoder()).reused
    base = load(folder, TEXT, LetterEncoder(), lexical_weight=0.5)
    text = open_store(corpus)[7]["text"]
    assert base.search_many([Query(text)], 1)[0][0].id == "p7"
