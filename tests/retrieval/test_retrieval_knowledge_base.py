"""Building, reusing, resuming, searching and refusing knowledge bases."""

import asyncio
import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import faiss
import numpy as np
import pytest
from retrieval_worlds import TEXTS, MakeEncoder, draw_flag, image_world, passage_rows, write_passages

from r1_router.errors import DataError, KnowledgeBaseError
from r1_router.retrieval import build as building
from r1_router.retrieval import embedding
from r1_router.retrieval.build import build
from r1_router.retrieval.dense import load_dense
from r1_router.retrieval.encoders import FusedEncoder, SentenceEncoder
from r1_router.retrieval.images import EfficientNetEncoder
from r1_router.retrieval.knowledge_base import load
from r1_router.retrieval.lexical import build_lexical, lexical_text, load_lexical, words
from r1_router.retrieval.vectors import Vectors
from r1_router.types import IMAGE, TABLE, TEXT, Query


@pytest.fixture
def built(tmp_path: Path, encoder: SentenceEncoder) -> Path:
    return build(write_passages(tmp_path, passage_rows()), tmp_path / "bases" / "text", TEXT, encoder).folder


def test_a_passage_finds_itself_with_its_text_and_source(built: Path, encoder: SentenceEncoder) -> None:
    base = load(built, TEXT, encoder)
    found = base.search_many([Query(text) for text in TEXTS], 2)
    assert [passages[0].id for passages in found] == [f"p{n}" for n in range(5)]
    first = found[2][0]
    assert (first.text, first.source) == (TEXTS[2], TEXT)
    assert first.score == pytest.approx(1, abs=1e-5) and first.score > found[2][1].score


def test_asking_for_more_than_there_is_gives_all_once(built: Path, encoder: SentenceEncoder) -> None:
    for weight in (0.0, 0.4):
        base = load(built, TEXT, encoder, lexical_weight=weight)
        (found,) = base.search_many([Query("alpha")], 50)
        assert sorted(passage.id for passage in found) == [f"p{n}" for n in range(5)]
        assert base.search_many([], 5) == []


def test_lexical_weight_is_the_stated_mean(built: Path, encoder: SentenceEncoder) -> None:
    query = Query("8848 lake")
    dense = {p.id: p.score for p in load(built, TEXT, encoder).search_many([query], 5)[0]}
    lexical = build_lexical(lexical_text(row["title"], row["text"]) for row in passage_rows()).scores(query.text)
    fused = load(built, TEXT, encoder, lexical_weight=0.3).search_many([query], 5)[0]
    expected = {f"p{n}": 0.7 * dense[f"p{n}"] + 0.3 * lexical[n] / lexical.max() for n in range(5)}
    assert {p.id: p.score for p in fused} == pytest.approx(expected, abs=1e-5)
    assert [p.id for p in fused] == sorted(expected, key=lambda name: -expected[name])


def test_a_lexical_hit_beyond_the_dense_depth_is_found(
    tmp_path: Path, encoder: SentenceEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("r1_router.retrieval.knowledge_base.FUSION_DEPTH", 2)
    texts = [f"{'abc ' * n}" for n in range(1, 30)] + ["zq9 wholly unlike it all in words and in length of words"]
    folder = build(write_passages(tmp_path, passage_rows(texts)), tmp_path / "kb1", TEXT, encoder).folder
    query = Query("abc abc abc zq9")
    assert "p29" not in [p.id for p in load(folder, TEXT, encoder).search_many([query], 2)[0]]
    assert load(folder, TEXT, encoder, lexical_weight=0.9).search_many([query], 2)[0][0].id == "p29"


def test_words_fold_case_and_accents() -> None:
    assert words("São_Tomé's 1,999 (GDP)") == ["sao", "tome", "s", "1", "999", "gdp"]
    assert not build_lexical(["abc", ""]).scores("??? unknown").any()


def test_the_saved_lexical_index_is_the_same_in_every_process(tmp_path: Path) -> None:
    """A set's order of words differs from process to process, and would change the bytes."""
    build_lexical(["delta alpha", "beta alpha"]).save(tmp_path)
    vocabulary = json.loads((tmp_path / "vocab.index.json").read_text())
    assert list(vocabulary.items())[:3] == [("delta", 0), ("alpha", 1), ("beta", 2)]
    assert load_lexical(tmp_path).scores("alpha").tolist() == pytest.approx(
        build_lexical(["b alpha"] * 2).scores("alpha").tolist()
    )


def test_awaits_of_the_moment_share_one_encoding(built: Path, encoder: SentenceEncoder) -> None:
    sizes: list[int] = []

    class Counting:
        dim, settings = encoder.dim, encoder.settings

        def encode(self, items: Sequence[Query]) -> Vectors:
            sizes.append(len(items))
            return encoder.encode(items)

        encode_passages = encode

    base = load(built, TEXT, Counting())

    async def ask() -> list[list[str]]:
        found = await asyncio.gather(
            *(base.search(Query(text), k) for text, k in zip(TEXTS, (1, 2, 3, 4, 5), strict=True))
        )
        return [[passage.id for passage in passages] for passages in found]

    found = asyncio.run(ask())
    assert sizes == [5]
    assert [ids[0] for ids in found] == [f"p{n}" for n in range(5)]
    assert [len(ids) for ids in found] == [1, 2, 3, 4, 5]


def test_a_query_that_cannot_be_encoded_fails_alone(tmp_path: Path, random_image_encoder: EfficientNetEncoder) -> None:
    folder = build(image_world(tmp_path, 3), tmp_path / "kb1", IMAGE, random_image_encoder).folder
    base = load(folder, IMAGE, random_image_encoder)
    good, bad = Query("", str(tmp_path / "flags/1.png")), Query("", str(tmp_path / "flags/none.png"))

    async def ask() -> list[object]:
        return list(await asyncio.gather(base.search(good, 1), base.search(bad, 1), return_exceptions=True))

    found, failure = asyncio.run(ask())
    assert isinstance(failure, DataError) and "none.png" in str(failure)
    assert isinstance(found, list) and found[0].id == "p1"


def test_an_image_base_is_asked_by_picture_by_words_or_by_both(
    tmp_path: Path, encoder: SentenceEncoder, random_image_encoder: EfficientNetEncoder
) -> None:
    fused = FusedEncoder(random_image_encoder, encoder)
    base = load(build(image_world(tmp_path, 6), tmp_path / "kb1", IMAGE, fused).folder, IMAGE, fused)
    picture = str(tmp_path / "flags/4.png")
    found = base.search_many([Query("", picture), Query("flag gamma"), Query("flag epsilon", picture)], 1)
    assert [passages[0].id for passages in found] == ["p4", "p2", "p4"]


def test_a_second_build_of_the_same_inputs_does_nothing(built: Path, tmp_path: Path, encoder: SentenceEncoder) -> None:
    before = {path: path.stat().st_mtime_ns for path in built.rglob("*")}
    again = build(tmp_path / "kb/text.jsonl", built, TEXT, encoder)
    assert again.reused and again.rows == 5
    assert {path: path.stat().st_mtime_ns for path in built.rglob("*")} == before


def test_changed_passages_or_pictures_or_encoder_build_anew(
    tmp_path: Path, random_image_encoder: EfficientNetEncoder, make_encoder: MakeEncoder
) -> None:
    passages, folder = image_world(tmp_path, 3), tmp_path / "bases" / "image"
    assert not build(passages, folder, IMAGE, random_image_encoder).reused
    draw_flag(77).save(tmp_path / "flags/0.png")
    assert not build(passages, folder, IMAGE, random_image_encoder).reused
    assert build(passages, folder, IMAGE, random_image_encoder).reused
    passages.write_text(passages.read_text().replace("alpha", "omega"))
    assert not build(passages, folder, IMAGE, random_image_encoder).reused
    assert not build(passages, folder, IMAGE, make_encoder(1)).reused
    assert {path.name for path in folder.parent.iterdir()} == {"image", ".image.lock"}


def test_a_build_cut_short_goes_on_where_it_was(
    tmp_path: Path, encoder: SentenceEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedding, "CHUNK", 2)
    passages, folder = write_passages(tmp_path, passage_rows()), tmp_path / "bases" / "text"
    done: list[int] = []

    def stop_at_two(now: int, total: int) -> None:
        if now == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build(passages, folder, TEXT, encoder, progress=stop_at_two)
    with pytest.raises(KnowledgeBaseError, match="r1-router build"):
        load(folder, TEXT, encoder)
    with open(tmp_path / "bases/.text.part/vectors/vectors-00000.npy.part", "ab") as file:
        file.write(b"torn")
    build(passages, folder, TEXT, encoder, progress=lambda now, total: done.append(now))
    assert done == [2, 4, 5]
    whole = build(passages, tmp_path / "whole", TEXT, encoder).folder
    assert (folder / "dense.faiss").read_bytes() == (whole / "dense.faiss").read_bytes()


def test_what_a_build_killed_at_its_end_has_left_is_cleared_by_the_next(
    tmp_path: Path, encoder: SentenceEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    passages, folder = write_passages(tmp_path, passage_rows()), tmp_path / "bases" / "text"
    swap_in = building._swap_in

    def die_after(whole: Path, target: Path) -> None:
        swap_in(whole, target)
        raise KeyboardInterrupt

    monkeypatch.setattr(building, "_swap_in", die_after)
    with pytest.raises(KeyboardInterrupt):
        build(passages, folder, TEXT, encoder)
    assert (part := folder.with_name(".text.part")).is_dir()
    assert build(passages, folder, TEXT, encoder).reused and not part.exists()


def test_leftovers_of_another_build_are_not_gone_on_with(tmp_path: Path, encoder: SentenceEncoder) -> None:
    part = tmp_path / "bases/.text.part"
    (part / "vectors").mkdir(parents=True)
    (part / "inputs.json").write_text("{}")
    np.save(part / "vectors/vectors-00000.npy", np.ones((5, encoder.dim), dtype=np.float32))
    folder = build(write_passages(tmp_path, passage_rows()), tmp_path / "bases/text", TEXT, encoder).folder
    assert load(folder, TEXT, encoder).search_many([Query(TEXTS[3])], 1)[0][0].id == "p3"


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"id": "p1", "title": "", "text": "again"}, r"line 6: id 'p1' was used by line 2"),
        ({"id": "p9", "title": ""}, r"line 6: 'text' must be a string"),
        ({"id": "p9", "title": "", "text": "x", "image": 3}, r"line 6: 'image' must be a path"),
        ({"id": "p9", "title": "", "text": "x", "image": "../../etc/passwd"}, r"inside"),
        ({"id": "p9", "title": "", "text": "x", "image": "flags/none.png"}, r"no image 'flags/none.png'"),
    ],
)
def test_a_bad_passage_is_named(tmp_path: Path, encoder: SentenceEncoder, row: dict[str, object], reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        build(write_passages(tmp_path, [*passage_rows(), row]), tmp_path / "kb1", TEXT, encoder)
    assert not (tmp_path / "kb1").exists()


def test_an_empty_passages_file_is_refused(tmp_path: Path, encoder: SentenceEncoder) -> None:
    with pytest.raises(DataError, match="missing or empty"):
        build(write_passages(tmp_path, []), tmp_path / "kb1", TEXT, encoder)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def damage(path: Path) -> None:
    """Other bytes, as many: only looking inside tells."""
    path.write_bytes(b"x" * path.stat().st_size)


def edit_manifest(folder: Path, **changes: object) -> None:
    path = folder / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


DAMAGES = {
    "no folder": (lambda folder: shutil.rmtree(folder), "No knowledge base"),
    "no manifest": (lambda folder: (folder / "manifest.json").unlink(), "half written"),
    "torn manifest": (lambda folder: truncate(folder / "manifest.json"), "not a manifest"),
    "other format": (lambda folder: edit_manifest(folder, format=99), "format 99"),
    "no index": (lambda folder: (folder / "dense.faiss").unlink(), r"lacks dense\.faiss"),
    "truncated index": (
        lambda folder: truncate(folder / "dense.faiss"),
        r"dense\.faiss is not the file that was built",
    ),
    "damaged index": (lambda folder: damage(folder / "dense.faiss"), r"dense\.faiss is not"),
    "damaged lexical": (lambda folder: damage(folder / "lexical/vocab.index.json"), r"vocab\.index\.json is not"),
    "changed passages": (lambda folder: damage(folder / "passages.jsonl"), r"passages\.jsonl is not"),
    "no lexical": (lambda folder: shutil.rmtree(folder / "lexical"), "lacks lexical/"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_folder_is_refused_and_mended_by_a_build(
    name: str, built: Path, tmp_path: Path, encoder: SentenceEncoder
) -> None:
    harm, reason = DAMAGES[name]
    harm(built)
    with pytest.raises(KnowledgeBaseError, match=f"(?s){reason}.*r1-router build"):
        load(built, TEXT, encoder)
    assert not build(tmp_path / "kb/text.jsonl", built, TEXT, encoder).reused
    assert len(load(built, TEXT, encoder, lexical_weight=0.5)) == 5


def test_files_that_hold_no_such_index_are_refused(tmp_path: Path) -> None:
    faiss.write_index(faiss.IndexFlatL2(4), str(tmp_path / "l2.faiss"))
    (tmp_path / "torn.faiss").write_bytes(b"IxF")
    (tmp_path / "params.index.json").write_text("{}")
    with pytest.raises(KnowledgeBaseError, match="not an index of inner products"):
        load_dense(tmp_path / "l2.faiss")
    with pytest.raises(KnowledgeBaseError, match="Cannot read the index"):
        load_dense(tmp_path / "torn.faiss")
    with pytest.raises(KnowledgeBaseError, match="Cannot read the lexical"):
        load_lexical(tmp_path)


def test_another_encoder_or_source_is_refused(built: Path, make_encoder: MakeEncoder, encoder: SentenceEncoder) -> None:
    with pytest.raises(KnowledgeBaseError, match=r"another encoder \(weights .*r1-router build"):
        load(built, TEXT, make_encoder(1))
    with pytest.raises(KnowledgeBaseError, match="not for 'table retriever'"):
        load(built, TABLE, encoder)


def test_a_folder_with_other_files_is_never_replaced(tmp_path: Path, encoder: SentenceEncoder) -> None:
    mistyped = tmp_path / "papers"
    mistyped.mkdir()
    (mistyped / "thesis.txt").write_text("years of work")
    with pytest.raises(KnowledgeBaseError, match="not empty and no knowledge base"):
        build(write_passages(tmp_path, passage_rows()), mistyped, TEXT, encoder)
    assert (mistyped / "thesis.txt").read_text() == "years of work"
