"""Reciprocal-rank fusion: by places alone, of vectors and BM25, in one config line."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import yaml
from retrieval_worlds import TEXTS, passage_rows, write_passages

from r1_router.bases import KnowledgeBases
from r1_router.config import load_config
from r1_router.errors import ConfigError
from r1_router.retrieval.encoders import SentenceEncoder
from r1_router.retrieval.fusion import RankFused, fused_by_rank, open_lexical
from r1_router.retrieval.knowledge_base import load
from r1_router.types import TEXT, Passage, Query


def ranking(*ids: str) -> list[Passage]:
    return [Passage(id_, f"text of {id_}", 9.0 - place, TEXT) for place, id_ in enumerate(ids)]


def test_a_passage_high_in_both_comes_before_one_that_is_first_in_one() -> None:
    fused = fused_by_rank([ranking("a", "b", "c"), ranking("d", "b", "e")])
    assert [passage.id for passage in fused] == ["b", "a", "d", "c", "e"]
    assert [passage.score for passage in fused] == pytest.approx([2 / 62, 1 / 61, 1 / 61, 1 / 63, 1 / 63])
    assert fused_by_rank([[], []]) == []


def config_of(folder: Path, encoder: Path, **source: Any) -> Path:
    section = {"name": TEXT.name, "tag": TEXT.tag, "purpose": "p", "passages": "kb/text.jsonl", "folder": "base"}
    config = {
        "llm": {"name": "none", "model": "none"},
        "encoders": {"text": {"kind": "sentence", "model": str(encoder)}},
        "sources": [section | {"encoder": "text"} | source],
        "benchmarks": {},
    }
    path = folder / "c.yaml"
    path.write_text(yaml.safe_dump(config))
    return path


@pytest.fixture
def bert(encoder: SentenceEncoder, tmp_path: Path) -> Path:
    encoder._model.save(str(tmp_path / "bert"))
    return tmp_path / "bert"


def test_one_config_line_fuses_vectors_with_bm25(bert: Path, encoder: SentenceEncoder, tmp_path: Path) -> None:
    write_passages(tmp_path, passage_rows())
    plain = KnowledgeBases(load_config(config_of(tmp_path, bert)))
    fused = KnowledgeBases(load_config(config_of(tmp_path, bert, fusion="rrf")))
    fused.build()
    (base,) = fused.load().values()
    assert isinstance(base, RankFused) and len(base) == len(TEXTS)
    queries = [Query("beta mountain"), Query("são tomé"), Query("zzz")]
    folder = tmp_path / "base"
    vectors = load(folder, base.source, encoder).search_many(queries, 5)
    words = open_lexical(folder, base.source).search_many(queries, 5)
    assert [[passage.id for passage in found] for found in words] == [["p1"], ["p2"], []]
    wanted = [fused_by_rank(both)[:2] for both in zip(vectors, words, strict=True)]
    assert base.search_many(queries, 2) == wanted
    assert asyncio.run(base.search(queries[0], 2)) == wanted[0]
    assert wanted[2] == fused_by_rank([vectors[2]])[:2]
    assert plain.digest() != fused.digest()


def test_places_and_weights_are_not_mixed(bert: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="fusion rrf weighs both alike"):
        load_config(config_of(tmp_path, bert, fusion="rrf", lexical_weight=0.3))
    with pytest.raises(ConfigError, match="cannot be read back on a GPU; take fusion: rrf"):
        load_config(config_of(tmp_path, bert, index="IVF64,Flat", gpu=True, lexical_weight=0.3))
    with pytest.raises(ConfigError, match="'ranks' is not known; there are weights, rrf"):
        load_config(config_of(tmp_path, bert, fusion="ranks"))


def test_the_best_words_come_first_and_equal_ones_in_order(bert: Path, tmp_path: Path) -> None:
    write_passages(tmp_path, passage_rows(["same words here", "other", "same words here", "same words here same"]))
    KnowledgeBases(load_config(config_of(tmp_path, bert, fusion="rrf"))).build()
    lexical = open_lexical(tmp_path / "base", TEXT)
    assert [passage.id for passage in lexical.search_many([Query("same")], 9)[0]] == ["p3", "p0", "p2"]
    assert [passage.id for passage in lexical.search_many([Query("other same words here")], 2)[0]] == ["p1", "p0"]
