"""Kinds of index, in one file and in many, mapped and not; builds that are killed; plans and measures."""

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from index_worlds import DIM, INVERTED, LetterEncoder, main, write_corpus
from typer.testing import CliRunner

from r1_router.cli import app
from r1_router.errors import ConfigError, KnowledgeBaseError
from r1_router.retrieval.build import Making, build
from r1_router.retrieval.dense import DenseIndex, build_dense, load_dense, make_index
from r1_router.retrieval.index_bench import Held, made_up, measure, sample
from r1_router.retrieval.index_plan import choices, lists_for, plan, probes
from r1_router.retrieval.knowledge_base import load
from r1_router.retrieval.manifest import IndexSettings
from r1_router.retrieval.store import open_store
from r1_router.types import TEXT, Query

KINDS = ["Flat", "SQfp16", "SQ8", "IVF8,Flat", "IVF8,SQ8", "HNSW16", "PCA8,IVF8,SQ8"]


def built(vectors: np.ndarray, tmp_path: Path, factory: str, shard_rows: int | None = None) -> list[Path]:
    folder, work = tmp_path / f"index {factory} {shard_rows}", tmp_path / "work"
    folder.mkdir()
    work.mkdir(exist_ok=True)
    build_dense(Held(vectors), vectors.shape[1], IndexSettings(factory, shard_rows), folder, work)
    (work / "trained.faiss").unlink(missing_ok=True)
    return sorted(folder.iterdir())


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("factory", KINDS)
def test_a_row_finds_itself_in_each_kind_whole_and_in_shards(factory: str, mmap: bool, tmp_path: Path) -> None:
    vectors = made_up(1000, DIM).array
    for shard_rows in (None, 300):
        files = built(vectors, tmp_path, factory, shard_rows)
        assert len(files) == (1 if shard_rows is None else 4)
        index = load_dense(files, mmap=mmap, search="nprobe=8" if "IVF" in factory else "")
        assert (index.ntotal, index.d) == (1000, DIM)
        rows = index.search(vectors[::100], 1)[1][:, 0]
        assert (rows == np.arange(0, 1000, 100)).mean() >= (0.5 if "PCA" in factory else 1)
        near = index.reconstruct_batch(np.array([5, 305, 999])) @ vectors[[5, 305, 999]].T
        assert (near.diagonal() > 0.4).all()


def test_a_mapped_index_is_not_read_into_memory(tmp_path: Path) -> None:
    files = built(made_up(1000, DIM).array, tmp_path, "Flat", 300)
    for mmap in (False, True):
        assert {shard.codes.is_owned for shard in load_dense(files, mmap=mmap)._shards} == {not mmap}


def test_shards_give_what_one_flat_index_gives(tmp_path: Path) -> None:
    vectors = made_up(1000, DIM).array
    whole = load_dense(built(vectors, tmp_path, "Flat"))
    shards = load_dense(built(vectors, tmp_path, "Flat", 130))
    for k in (1, 10, 200, 1000):
        (scores, rows), (others, found) = whole.search(vectors[:20], k), shards.search(vectors[:20], k)
        assert np.allclose(scores, others, atol=1e-6) and (rows == found).mean() > 0.99  # but for near ties


def test_what_an_index_does_not_find_is_left_out_and_not_the_last_passage(tmp_path: Path) -> None:
    """One probed list of eight holds fewer than are asked for: FAISS fills up with row -1."""
    making = Making(IndexSettings("IVF8,Flat", 70), lexical=True)
    corpus = write_corpus(tmp_path, 200)
    folder = build(corpus, tmp_path / "base", TEXT, LetterEncoder(), making=making).folder
    for weight in (0.0, 0.3):
        (found,) = load(folder, TEXT, LetterEncoder(), lexical_weight=weight).search_many([Query("abc zzz")], 200)
        ids = [passage.id for passage in found]
        assert 0 < len(ids) < 200 and len(set(ids)) == len(ids)
    (found,) = load(folder, TEXT, LetterEncoder(), search="nprobe=8").search_many([Query("abc zzz")], 200)
    assert len(found) == 200 and np.all(np.diff([passage.score for passage in found]) <= 0)


def test_a_wrong_kind_or_setting_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="FAISS knows no 'Flatt'"):
        make_index("Flatt", DIM)
    with pytest.raises(ConfigError, match="cannot be trained on 20 rows"):
        built(made_up(20, DIM).array, tmp_path, "IVF64,Flat")
    with pytest.raises(ConfigError, match="'nprobes=3' does not fit"):
        load_dense(built(made_up(100, DIM).array, tmp_path, "IVF2,Flat"), search="nprobes=3")
    with pytest.raises(ConfigError, match="sees no GPU"):
        load_dense(built(made_up(100, DIM).array, tmp_path, "Flat"), gpu=True)
    with pytest.raises(ConfigError, match="float16 or float32"):
        Making(IndexSettings(dtype="int8"))


def test_files_take_turns_on_the_gpus_and_share_one_scratch_space_on_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import faiss

    vectors, placed = made_up(1000, DIM).array, []

    def put(scratch: object, gpu: int, shard: Any) -> Any:
        placed.append((gpu, scratch))
        return shard

    monkeypatch.setattr(faiss, "get_num_gpus", lambda: 2)
    monkeypatch.setattr(faiss, "StandardGpuResources", object, raising=False)
    monkeypatch.setattr(faiss, "index_cpu_to_gpu", put, raising=False)
    index = load_dense(built(vectors, tmp_path, "Flat", 220), gpu=True)
    assert [gpu for gpu, _ in placed] == [0, 1, 0, 1, 0] and len(set(placed)) == 2
    assert (index.search(vectors[:20], 1)[1][:, 0] == np.arange(20)).all()

    def refuse(*_: object) -> None:
        raise RuntimeError("This index type is not implemented on GPU.")

    monkeypatch.setattr(faiss, "index_cpu_to_gpu", refuse)
    with pytest.raises(ConfigError, match=r"not implemented on GPU.*; Flat, SQfp16"):
        load_dense(built(vectors, tmp_path, "HNSW16"), gpu=True)


def test_a_base_without_words_holds_no_lexical_index_and_says_so(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path, 50)
    folder = build(corpus, tmp_path / "base", TEXT, LetterEncoder(), making=Making(lexical=False)).folder
    assert not (folder / "lexical").exists()
    load(folder, TEXT, LetterEncoder())
    with pytest.raises(KnowledgeBaseError, match="without a lexical index"):
        load(folder, TEXT, LetterEncoder(), lexical_weight=0.4)
    assert not build(corpus, folder, TEXT, LetterEncoder()).reused
    assert build(corpus, folder, TEXT, LetterEncoder(), making=Making(lexical=False)).reused


def test_kept_vectors_are_indexed_again_without_encoding(tmp_path: Path) -> None:
    corpus, kept = write_corpus(tmp_path, 300), tmp_path / "vectors"
    for index in (IndexSettings(), IndexSettings("SQ8"), IndexSettings("IVF4,SQ8", 100)):
        encoder = LetterEncoder()
        built = build(corpus, tmp_path / "base", TEXT, encoder, making=Making(index, vectors=kept))
        assert not built.reused and sum(encoder.sizes) == (300 if index == IndexSettings() else 0)
    assert load(built.folder, TEXT, LetterEncoder()).search_many([Query(open_store(corpus)[5]["text"])], 1)[0]


def killed(command: list[str], when: Callable[[], bool]) -> bool:
    """Run the command and kill it once `when` holds; False where it ended before."""
    process = subprocess.Popen(command)
    while process.poll() is None and not when():
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    return process.wait() == -signal.SIGKILL


def when_embedded(part: Path, rows: int) -> Callable[[], bool]:
    """Once the vectors of so many rows are on the disk, in half precision, in a file that is whole or not."""
    files = [part / "vectors" / name for name in ("vectors-00000.npy.part", "vectors-00000.npy")]

    def written(file: Path) -> int:
        try:
            return file.stat().st_size
        except FileNotFoundError:
            return 0

    return lambda: max(map(written, files)) > rows * DIM * 2


def when_there(part: Path, files: int) -> Callable[[], bool]:
    """Once so many files and folders are there; what vanishes while they are counted is passed over."""
    return lambda: sum(len(folders) + len(names) for _, folders, names in os.walk(part)) >= files


def test_a_build_killed_again_and_again_ends_as_one_left_alone(tmp_path: Path) -> None:
    """At random moments of the embedding, then at random numbers of files written, up to the last one."""
    corpus, part = write_corpus(tmp_path, 2000, shards=2), tmp_path / ".killed.part"
    command = [sys.executable, str(Path(__file__).with_name("index_worlds.py")), str(corpus), str(tmp_path / "killed")]
    rng = random.Random(7)
    moments = [when_embedded(part, rows) for rows in sorted(rng.sample(range(2000), 3))]
    moments += [when_there(part, files) for files in sorted(rng.sample(range(14, 43), 8))]
    kills = [killed(command, moment) for moment in moments]
    assert sum(kills) >= 6
    subprocess.run(command, check=True)
    main(str(corpus), str(tmp_path / "whole"))
    queries = [Query(row["text"][5:40]) for row in open_store(corpus / "passages-00001.jsonl")][:50]
    found = [
        load(tmp_path / name, TEXT, LetterEncoder(), lexical_weight=0.3).search_many(queries, 10)
        for name in ("killed", "whole")
    ]
    assert found[0] == found[1]
    assert not part.exists()


def test_index_files_that_are_there_are_not_made_again(tmp_path: Path) -> None:
    folder, work = tmp_path / "index", tmp_path / "work"
    folder.mkdir()
    work.mkdir()
    vectors = Held(made_up(1000, DIM).array)
    build_dense(vectors, DIM, INVERTED, folder, work)
    first, second, *_ = sorted(folder.iterdir())
    before, content = first.stat().st_mtime_ns, second.read_bytes()
    second.unlink()
    (work / second.name).write_bytes(b"half written")
    time.sleep(0.01)
    build_dense(vectors, DIM, INVERTED, folder, work)
    assert first.stat().st_mtime_ns == before and second.read_bytes() == content


def test_measures_know_an_exact_index_from_a_rough_one() -> None:
    rows, queries = sample(made_up(3000, DIM), 2500, 100)
    flat, rough = measure(rows, queries, [("Flat", ""), ("IVF64,SQ4", "nprobe=1")])
    assert flat.recall == 1 and rough.recall < 0.9
    assert flat.bytes > 4 * DIM * 2500 > rough.bytes
    assert min(flat.queries_per_second, rough.queries_per_second, flat.build_seconds) > 0
    assert min(flat.train_seconds, rough.train_seconds) > 0


def test_of_few_rows_only_kinds_without_a_training_are_measured() -> None:
    rows, queries = sample(made_up(30, DIM), 100, 15)
    kinds = [(one.factory, one.search) for one in choices(len(rows), DIM)]
    assert [one.factory for one in measure(rows, queries, kinds)] == ["Flat", "SQfp16", "SQ8", "HNSW32"]
    with pytest.raises(ConfigError, match=r"cannot be trained on 15 rows .* take Flat, or fewer lists"):
        measure(rows, queries, [("IVF64,SQ8", "")])


def test_a_plan_grows_with_the_passages(tmp_path: Path) -> None:
    rows, queries = sample(made_up(650, 32), 600, 50)
    planned = {one.choice.factory: one for one in plan(53_000_000, rows, queries, tmp_path)}
    assert lists_for(53_000_000) == 32768 and probes(32768) == 181
    assert list(planned) == [one.factory for one in choices(53_000_000, 32, 600)]
    flat, half, inverted = planned["Flat"], planned["SQfp16"], planned["IVF32768,SQ8"]
    assert flat.memory == pytest.approx(53e6 * (32 * 4 + 24), rel=0.01)
    assert half.memory == pytest.approx(53e6 * (32 * 2 + 24), rel=0.01)
    assert inverted.memory == pytest.approx(53e6 * (32 + 8 + 24) + 32768 * 32 * 4, rel=0.05)
    assert flat.recall == 1 and inverted.queries_per_second > flat.queries_per_second


CONFIG = """
llm: {name: none, engine: openai, base_url: "http://127.0.0.1:1/v1", model: none}
encoders: {text: {kind: sentence, model: nowhere}}
benchmarks: {}
sources:
  - name: text retriever
    tag: ter
    purpose: texts
    passages: kb/corpus/passages-00000.jsonl
    folder: base
    encoder: text
"""


def test_the_commands_plan_measure_and_check(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(CONFIG)
    folder = build(write_corpus(tmp_path, 400), tmp_path / "base", TEXT, LetterEncoder()).folder
    config = ["--config", str(tmp_path / "config.yaml")]
    run = CliRunner(env={"COLUMNS": "160"}).invoke
    measured = run(
        app, ["index", "bench", *config, "--index", "Flat", "--index", "IVF4,SQ8@nprobe=4", "--queries", "20"]
    )
    assert measured.exit_code == 0 and "IVF4,SQ8 nprobe=4" in measured.output and "1.000" in measured.output
    assert re.search(r"400 passages, \d+ files as they were made", run(app, ["index", "check", *config]).output)
    (folder / "dense.faiss").write_bytes(b"x")
    broken = run(app, ["index", "check", *config])
    assert broken.exit_code == 1 and "dense.faiss is not the file that was built" in broken.output
    assert run(app, ["index", "plan", "--passages", "1e6"]).exit_code == 1
    kept = CONFIG.partition("    passages")[0] + "    url: http://127.0.0.1:1\n"
    (tmp_path / "config.yaml").write_text(kept)
    assert "is kept elsewhere" in run(app, ["index", "bench", *config]).output


def test_running_top_k_takes_indexes_that_find_nothing() -> None:
    empty, full = make_index("Flat", DIM), make_index("Flat", DIM)
    full.add(made_up(5, DIM).array)
    rows = DenseIndex([empty, full, empty]).search(made_up(5, DIM).array[:1], 8)[1]
    assert sorted(rows[0]) == [-1, -1, -1, 0, 1, 2, 3, 4]
    assert -1 not in rows[0][:5]
