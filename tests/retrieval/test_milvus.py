"""A knowledge base in Milvus, in its embedded form: the passages faiss finds, uploads that go on, refusals."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from retrieval_worlds import MakeEncoder, image_world, passage_rows, write_passages

from r1_router.errors import ConfigError, DataError, KnowledgeBaseDown, KnowledgeBaseError
from r1_router.retrieval.build import build
from r1_router.retrieval.embedding import open_job
from r1_router.retrieval.encoders import FusedEncoder, SentenceEncoder
from r1_router.retrieval.images import EfficientNetEncoder
from r1_router.retrieval.knowledge_base import load
from r1_router.retrieval.vectors import PassageEncoder
from r1_router.types import IMAGE, TABLE, TEXT, Query, Source

pytest.importorskip("pymilvus", reason="the extra `milvus` is not installed")
pytest.importorskip("milvus_lite", reason="the extra `milvus` is not installed")

from r1_router.retrieval import milvus_upload
from r1_router.retrieval.milvus import MilvusBase, Place, connect, open_base
from r1_router.retrieval.milvus_upload import upload as upload_job

UPLOADER = str(Path(__file__).with_name("milvus_uploader.py"))
WORDS = [f"{letter}{other} river {n}" for n, letter in enumerate("abcdefghij") for other in "klmnopqrst"]


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("milvus") / "bases.db")


@pytest.fixture(scope="module")
def passages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_passages(tmp_path_factory.mktemp("world"), passage_rows(WORDS))


def upload(passages: Path, place: Place, source: Source, encoder: PassageEncoder, **settings: Any) -> int:
    """Upload by way of a folder of vectors beside the passages, one for each collection."""
    job = open_job(passages, passages.with_name(f"{place.collection}.vectors"), encoder, dtype="float32")
    return upload_job(job, place, source, encoder, **settings)


def ids(base: Any, queries: Sequence[Query], k: int) -> list[list[str]]:
    return [[passage.id for passage in found] for found in base.search_many(queries, k)]


def test_the_same_passages_as_the_flat_index(
    database: str, passages: Path, tmp_path: Path, encoder: SentenceEncoder
) -> None:
    place = Place(database, "same")
    assert upload(passages, place, TEXT, encoder) == len(WORDS)
    flat = load(build(passages, tmp_path / "flat", TEXT, encoder).folder, TEXT, encoder)
    base = open_base(place, TEXT, encoder)
    queries = [Query(text) for text in WORDS[::3]] + [Query("wholly other words"), Query("")]
    assert ids(base, queries, 10) == ids(flat, queries, 10)
    near, far = flat.search_many(queries, 3)[0][0], base.search_many(queries, 3)[0][0]
    assert (far.text, far.source) == (near.text, near.source) and far.score == pytest.approx(near.score, abs=1e-5)
    assert len(ids(base, [Query("a")], 10**6)[0]) == len(base) == len(WORDS)
    assert base.search_many([], 5) == []


def test_searches_awaited_at_once_are_one_call(database: str, passages: Path, encoder: SentenceEncoder) -> None:
    place = Place(database, "together")
    upload(passages, place, TEXT, encoder)
    base = open_base(place, TEXT, encoder)

    async def search() -> list[Any]:
        return await asyncio.gather(*(base.search(Query(text), 2) for text in WORDS))

    assert [found[0].id for found in asyncio.run(search())] == [f"p{n}" for n in range(len(WORDS))]


def test_an_upload_that_was_cut_short_goes_on(
    database: str, passages: Path, encoder: SentenceEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(milvus_upload, "CHUNK", 16)
    place, sent = Place(database, "resumed"), list[int]()

    def stop(done: int, total: int) -> None:
        if done == 48:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        upload(passages, place, TEXT, encoder, uploaded=stop)
    with pytest.raises(KnowledgeBaseError, match="48 of 100 passages"):
        open_base(place, TEXT, encoder)
    upload(passages, place, TEXT, encoder, uploaded=lambda done, total: sent.append(done))
    assert sent == [48, 64, 80, 96, 100]
    found = ids(open_base(place, TEXT, encoder), [Query(text) for text in WORDS], 1)
    assert found == [[f"p{n}"] for n in range(len(WORDS))]
    upload(passages, place, TEXT, encoder, uploaded=lambda done, total: sent.append(done))
    assert sent[5:] == [100]  # nothing is sent twice


def test_a_partly_written_chunk_is_sent_again(
    database: str, passages: Path, encoder: SentenceEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(milvus_upload, "CHUNK", 16)
    place, sent = Place(database, "torn"), list[int]()
    upload(passages, place, TEXT, encoder)
    connect(place).delete("torn", ids=list(range(40, 100)))
    upload(passages, place, TEXT, encoder, uploaded=lambda done, total: sent.append(done))
    assert sent[0] == 32 and len(open_base(place, TEXT, encoder)) == len(WORDS)


def test_a_store_that_was_started_again_is_loaded(database: str, passages: Path, encoder: SentenceEncoder) -> None:
    place = Place(database, "released")
    upload(passages, place, TEXT, encoder)
    for name in ("released", "released_made_from"):
        connect(place).release_collection(name)
    assert ids(open_base(place, TEXT, encoder), [Query(WORDS[5])], 1) == [["p5"]]


def test_an_upload_that_is_killed_goes_on_in_another_process(tmp_path: Path) -> None:
    file, place = write_passages(tmp_path, passage_rows([f"passage {n}" for n in range(4000)])), str(tmp_path / "k.db")
    process = subprocess.Popen([sys.executable, UPLOADER, file, place], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for _ in range(3):
        process.stdout.readline()
    process.kill()
    process.wait()
    done = subprocess.run([sys.executable, UPLOADER, file, place], check=True, capture_output=True, text=True).stdout
    numbers = [int(line) for line in done.split()]
    assert 256 <= numbers[0] < 4000 and numbers[-1] == 4000  # went on, and the last line counts what finds itself


def test_another_make_is_refused_and_nothing_is_dropped(
    database: str, passages: Path, tmp_path: Path, make_encoder: MakeEncoder, encoder: SentenceEncoder
) -> None:
    place = Place(database, "made")
    upload(passages, place, TEXT, encoder)
    other = make_encoder(1)
    changed = write_passages(tmp_path, passage_rows(["one", "two"]))
    with pytest.raises(KnowledgeBaseError, match="made from something else"):
        upload(changed, place, TEXT, encoder)
    with pytest.raises(KnowledgeBaseError, match="made from something else"):
        upload(write_passages(tmp_path / "other", passage_rows(WORDS)), place, TEXT, other)
    with pytest.raises(KnowledgeBaseError, match="encoder"):
        open_base(place, TEXT, other)
    with pytest.raises(KnowledgeBaseError, match="source 'text retriever' against 'table retriever'"):
        open_base(place, TABLE, encoder)
    assert len(open_base(place, TEXT, encoder)) == len(WORDS)


def test_a_collection_of_somebody_else_is_left_alone(database: str, passages: Path, encoder: SentenceEncoder) -> None:
    place = Place(database, "theirs")
    client = connect(place)
    client.create_collection("theirs", dimension=4)
    client.insert("theirs", [{"id": 1, "vector": [0.0, 1.0, 0.0, 0.0]}])
    with pytest.raises(KnowledgeBaseError, match="name another one"):
        upload(passages, place, TEXT, encoder)
    assert client.get_collection_stats("theirs")["row_count"] == 1


def test_what_is_not_there_is_told(database: str, tmp_path: Path, encoder: SentenceEncoder) -> None:
    with pytest.raises(KnowledgeBaseError, match="r1-router build"):
        open_base(Place(database, "missing"), TEXT, encoder)
    with pytest.raises(KnowledgeBaseDown, match="Is it up"):
        open_base(Place("http://127.0.0.1:9", "missing"), TEXT, encoder)
    with pytest.raises(KnowledgeBaseDown, match="Is it up"):
        open_base(Place(str(tmp_path / "no" / "folder.db"), "missing"), TEXT, encoder)


def test_a_passage_that_milvus_cannot_hold_is_named(database: str, tmp_path: Path, encoder: SentenceEncoder) -> None:
    rows = passage_rows(["short", "é" * 40_000])
    with pytest.raises(DataError, match="Line 2: 'text' has over 65535 bytes"):
        upload(write_passages(tmp_path, rows), Place(database, "long"), TEXT, encoder)


def test_pictures_are_uploaded_as_vectors(
    database: str, tmp_path: Path, encoder: SentenceEncoder, random_image_encoder: EfficientNetEncoder
) -> None:
    fused, place = FusedEncoder(random_image_encoder, encoder), Place(database, "flags")
    upload(image_world(tmp_path, 4), place, IMAGE, fused)
    query = Query("flag", str(tmp_path / "flags" / "2.png"))
    assert ids(open_base(place, IMAGE, fused), [query], 1) == [["p2"]]


def test_a_config_builds_and_searches_it(
    tmp_path: Path, make_encoder: MakeEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    from r1_router.bases import KnowledgeBases
    from r1_router.config import load_config

    write_passages(tmp_path, passage_rows(WORDS))
    make_encoder(0)._model.save(str(tmp_path / "encoder"))
    store = {"milvus": "bases.db", "collection": "text_base", "token_env": "R1_TEST_TOKEN"}
    source = {"name": TEXT.name, "tag": TEXT.tag, "purpose": "facts", "passages": "kb/text.jsonl", "encoder": "text"}
    source |= {"vectors": "vectors"}
    config = {
        "llm": {"name": "none", "model": "none"},
        "encoders": {"text": {"kind": "sentence", "model": "encoder"}},
        "sources": [source | {"store": store}],
        "benchmarks": {},
    }
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    bases = KnowledgeBases(load_config(tmp_path / "config.yaml"))
    with pytest.raises(ConfigError, match="export it"):
        bases.build()
    monkeypatch.setenv("R1_TEST_TOKEN", "")
    assert bases.build() == {TEXT.name: len(WORDS)}
    (base,) = bases.load().values()
    assert isinstance(base, MilvusBase) and ids(base, [Query(WORDS[7])], 1) == [["p7"]]
    digest = bases.digest()[TEXT.name]
    assert digest[:2] == ["facts", 0.0] and json.dumps(digest)
