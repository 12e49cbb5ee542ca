"""Vectors on disk: length-sorted, resumed, divided between processes, refused where they are others'."""

import json
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from index_worlds import DIM, LetterEncoder, write_corpus

from r1_router.errors import ConfigError, KnowledgeBaseError
from r1_router.retrieval import embedding
from r1_router.retrieval.build import Making, build
from r1_router.retrieval.embedding import Job, check_vectors, embed_shard, embed_shards, open_job, open_vectors
from r1_router.retrieval.embedding_engines import embed
from r1_router.retrieval.encoders import SentenceEncoder
from r1_router.retrieval.inputs import passage_files
from r1_router.retrieval.knowledge_base import load
from r1_router.retrieval.store import open_store
from r1_router.retrieval.vectors import Vectors
from r1_router.types import TEXT, Query

ROWS = 530
SOURCES = Path(__file__).parents[2] / "src"


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(embedding, "CHUNK", 50)
    return write_corpus(tmp_path, ROWS, shards=3)


@pytest.fixture
def job(tmp_path: Path, corpus: Path) -> Job:
    return open_job(corpus, tmp_path / "vectors", LetterEncoder(), shard_rows=200)


def texts(corpus: Path) -> list[str]:
    return [row["text"] for path in passage_files(corpus) for row in open_store(path)]


def test_each_row_is_its_passages_vector_in_half_precision(job: Job, corpus: Path) -> None:
    embed_shards(job, LetterEncoder())
    expected = LetterEncoder().encode([Query(text) for text in texts(corpus)])
    assert {np.load(path).dtype for path in job.folder.glob("vectors-*.npy")} == {np.dtype(np.float16)}
    assert [np.load(path).shape for path in sorted(job.folder.glob("vectors-*.npy"))] == [
        (200, DIM),
        (200, DIM),
        (130, DIM),
    ]
    assert np.allclose(open_vectors(job).rows(0, ROWS), expected, atol=1e-3)
    assert np.array_equal(open_vectors(job).rows(195, 405), open_vectors(job).rows(0, ROWS)[195:405])


def test_a_chunk_is_encoded_longest_first(job: Job) -> None:
    class Noting(LetterEncoder):
        def encode_passages(self, items: Sequence[Query]) -> Vectors:
            seen.append([len(item.text) for item in items])
            return self.encode(items)

    seen: list[list[int]] = []
    embed_shards(job, Noting())
    assert [len(lengths) for lengths in seen] == [50] * 4 + [50] * 4 + [50, 50, 30]
    assert all(lengths == sorted(lengths, reverse=True) for lengths in seen)


def test_a_torn_part_is_gone_on_with_at_its_last_whole_chunk(job: Job, tmp_path: Path) -> None:
    def stop(done: int, total: int) -> None:
        if done >= 300:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        embed_shards(job, LetterEncoder(), stop)
    with open(job.path(1).with_suffix(".npy.part"), "ab") as part:
        part.write(b"torn" * 20)
    encoder = LetterEncoder()
    embed_shards(job, encoder)
    assert sum(encoder.sizes) == ROWS - 300
    whole = open_job(tmp_path / "kb/corpus", tmp_path / "whole", LetterEncoder(), shard_rows=200)
    embed_shards(whole, LetterEncoder())
    assert [job.path(n).read_bytes() for n in range(3)] == [whole.path(n).read_bytes() for n in range(3)]


def test_several_processes_divide_the_shards(job: Job, corpus: Path) -> None:
    told: list[tuple[int, int]] = []
    vectors = embed(job, LetterEncoder, workers=2, progress=lambda *numbers: told.append(numbers))
    expected = LetterEncoder().encode([Query(text) for text in texts(corpus)])
    assert np.allclose(vectors.rows(0, ROWS), expected, atol=1e-3)
    assert told[-1] == (ROWS, ROWS)


def test_a_worker_that_fails_is_told_and_what_was_done_is_kept(job: Job) -> None:
    embed_shard(job, 0, LetterEncoder())
    with pytest.raises(KnowledgeBaseError, match="2 of 2 embedding workers"):
        embed(job, partial(LetterEncoder, pause="no number"), workers=2)  # type: ignore[arg-type]
    assert job.path(0).exists() and not job.is_done


def test_workers_of_ray_make_the_same_vectors(job: Job, corpus: Path) -> None:
    """In a process of its own: Ray keeps threads and handlers for the life of one."""
    pytest.importorskip("ray", reason='Ray Data is not installed: pip install "ray[data]==2.60.0"')
    script = (
        "import ray, sys, pathlib; sys.path.insert(0, sys.argv[3])\n"
        "from index_worlds import LetterEncoder\n"
        "from r1_router.retrieval.embedding import open_job\n"
        "from r1_router.retrieval.embedding_engines import embed\n"
        'ray.init(num_cpus=2, include_dashboard=False, _node_ip_address="127.0.0.1",\n'
        '         runtime_env={"env_vars": {"PYTHONPATH": ":".join(sys.path)}})\n'
        "job = open_job(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), LetterEncoder(), shard_rows=200)\n"
        'embed(job, LetterEncoder, engine="ray", workers=2)\n'
    )
    arguments = [str(corpus), str(job.folder), str(Path(__file__).parent)]
    subprocess.run([sys.executable, "-c", script, *arguments], check=True, capture_output=True, timeout=120)
    expected = LetterEncoder().encode([Query(text) for text in texts(corpus)])
    assert np.allclose(open_vectors(job).rows(0, ROWS), expected, atol=1e-3)


def test_vectors_of_something_else_are_refused_and_kept(job: Job, corpus: Path) -> None:
    embed_shards(job, LetterEncoder())
    for changes in ({"dtype": "float32"}, {"shard_rows": 100}):
        with pytest.raises(KnowledgeBaseError, match="in another form"):
            open_job(corpus, job.folder, LetterEncoder(), **{"shard_rows": 200, **changes})  # type: ignore[arg-type]
    other = LetterEncoder()
    other.settings = {"encoder": "another"}
    with pytest.raises(KnowledgeBaseError, match="by another encoder"):
        open_job(corpus, job.folder, other, shard_rows=200)
    (job.folder / "embedding.json").unlink()
    with pytest.raises(KnowledgeBaseError, match=r"has vectors but no embedding\.json"):
        open_job(corpus, job.folder, LetterEncoder(), shard_rows=200)
    assert job.is_done


def test_a_damaged_shard_is_named(job: Job) -> None:
    embed_shards(job, LetterEncoder())
    assert check_vectors(job.folder) == 3
    path = job.path(1)
    path.write_bytes(path.read_bytes()[:-4] + b"xxxx")
    with pytest.raises(KnowledgeBaseError, match=r"vectors-00001\.npy is not the file that was made"):
        check_vectors(job.folder)
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(KnowledgeBaseError, match=r"vectors-00001\.npy is missing or was cut"):
        open_vectors(job)
    path.unlink()
    embed_shards(job, LetterEncoder())
    assert check_vectors(job.folder) == 3


def test_an_engine_that_is_not_known_is_refused(job: Job) -> None:
    with pytest.raises(ConfigError, match="there are local, ray"):
        embed(job, LetterEncoder, engine="spark")


def test_the_checksums_are_those_that_sha256sum_reads(job: Job) -> None:
    embed_shards(job, LetterEncoder())
    names = [path.name for path in job.folder.glob("*.sha256")]
    done = subprocess.run(["sha256sum", "-c", *names], cwd=job.folder, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.count("OK") == 3
    assert json.loads((job.folder / "embedding.json").read_text())["rows"] == ROWS


def test_the_published_command_makes_what_a_build_only_indexes(
    job: Job, corpus: Path, tmp_path: Path, encoder: SentenceEncoder
) -> None:
    encoder._model.save_pretrained(str(tmp_path / "model"))
    flags = ["--input", corpus, "--output", tmp_path / "bge", "--model", tmp_path / "model", "--dtype", "float32"]
    command = [sys.executable, "bge_embedding.py", *map(str, flags)]
    done = subprocess.run(command, cwd=SOURCES, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert f"530 vectors of {encoder.dim} dimensions" in done.stdout
    told: list[int] = []
    making = Making(lexical=False, vectors=tmp_path / "bge")
    base = build(corpus, tmp_path / "base", TEXT, encoder, making=making, progress=lambda now, total: told.append(now))
    assert told == [ROWS]
    text = texts(corpus)[77]
    assert load(base.folder, TEXT, encoder).search_many([Query(text)], 1)[0][0].text == text
