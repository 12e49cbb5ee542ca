"""Training a table retriever: what it learns from, that it learns, that it goes on after a kill, and what it saves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from r1_router import jsonl
from r1_router.config import load_config
from r1_router.errors import ConfigError, DataError
from r1_router.retrieval_quality import GoldQuery
from r1_router.training.table_retriever import CHECKPOINTS, RetrieverConfig, train
from r1_router.training.table_retriever_data import Material, make_examples, watched_passages
from r1_router.types import TABLE, Query
from tiny_models import save_tiny_encoder

pytest.importorskip("datasets", reason="the trainer needs datasets and accelerate")
pytest.importorskip("accelerate", reason="the trainer needs datasets and accelerate")

CITIES = tuple("oslo rome paris berlin madrid vienna prague lisbon athens dublin london bern".split())  # noqa: SIM905


def gold(city: str) -> GoldQuery:
    return GoldQuery(f"q-{city}", TABLE.name, Query(f"how many points had {city}?"), frozenset({city}))


@pytest.fixture
def material() -> Material:
    """A table a city; the last four cities' questions are held out."""
    passages = {city: f"{city} table. year, points. {1900 + n}, {n}" for n, city in enumerate(CITIES)}
    return Material([gold(city) for city in CITIES[:8]], [gold(city) for city in CITIES[8:]], passages)


@pytest.fixture
def config(tmp_path: Path) -> RetrieverConfig:
    save_tiny_encoder(tmp_path / "encoder")
    steps = {"epochs": 2.0, "batch_size": 4, "evaluate_steps": 2}
    return RetrieverConfig(str(tmp_path / "encoder"), tmp_path / "out", learning_rate=1e-3, **steps)  # type: ignore[arg-type]


def test_negatives_are_the_nearest_by_words_and_never_gold() -> None:
    passages = {
        "Page_0#0": "oslo points",
        "Page_0#1": "oslo points 1990",
        "near": "oslo 1990",
        "far": "rome",
    }
    asked = GoldQuery("q", TABLE.name, Query("points in oslo 1990?"), frozenset({"Page_0"}))
    example = make_examples(Material([asked], [], passages), negatives=1, mined_from=1, seed=0)[0]
    assert (example.passage, example.negatives) == ("oslo points 1990", ("oslo 1990",))


def test_a_gold_passage_that_the_base_lacks_is_an_error_that_names_the_question(material: Material) -> None:
    with pytest.raises(DataError, match="q-atlantis"):
        make_examples(replace(material, train=[gold("atlantis")]), 1, 10, 0)


def test_held_out_questions_are_watched_among_their_passages_and_some_others(material: Material) -> None:
    watched = watched_passages(material, 6, seed=0)
    assert len(watched) == 6 and set(CITIES[8:]) < set(watched)
    assert watched == watched_passages(material, 6, seed=0) != watched_passages(material, 6, seed=1)


def test_one_model_is_trained_watched_and_saved_for_a_sentence_encoder(
    material: Material, config: RetrieverConfig
) -> None:
    from r1_router.retrieval.encoders import SentenceEncoder

    before = SentenceEncoder(config.model).encode([Query("oslo")])
    card = train(config, material)
    rows = list(jsonl.read(config.output / "log.jsonl"))
    assert [row["step"] for row in rows if "hit@1" in row] == [0, 2, 4]
    assert card["steps"] == 4 and card["held_out"]["hit@5"] == rows[-1]["hit@5"]
    assert "hit@10" in (config.output / "curve.svg").read_text()
    assert not (config.output / CHECKPOINTS).exists()
    after = SentenceEncoder(config.output).encode([Query("oslo")])
    assert np.abs(after - before).max() > 1e-3
    assert train(config, material) == card  # finished: not trained again


class Killed(Exception):
    pass


def test_a_run_that_was_killed_goes_on_to_the_same_weights(material: Material, config: RetrieverConfig) -> None:
    from r1_router.retrieval.encoders import SentenceEncoder

    def kill_after_a_checkpoint(row: dict[str, Any]) -> None:
        if row["step"] == 4:
            raise Killed

    whole = replace(config, output=config.output.with_name("whole"))
    train(whole, material)
    with pytest.raises(Killed):
        train(config, material, kill_after_a_checkpoint)
    torn = config.output / CHECKPOINTS / "checkpoint-3"  # what a kill within a checkpoint leaves
    torn.mkdir()
    steps: list[int] = []
    train(config, material, lambda row: steps.append(row["step"]))
    assert steps and min(steps) > 2
    resumed, straight = (SentenceEncoder(one.output).encode([Query("oslo")]) for one in (config, whole))
    np.testing.assert_allclose(resumed, straight, atol=1e-6)


def test_a_checkpoint_of_other_settings_is_refused(material: Material, config: RetrieverConfig) -> None:
    def kill(row: dict[str, Any]) -> None:
        if row["step"] == 4:
            raise Killed

    with pytest.raises(Killed):
        train(config, material, kill)
    with pytest.raises(DataError, match="other settings"):
        train(replace(config, learning_rate=1e-4), material)


@pytest.mark.parametrize("pooling", ["pooler", "mean"])
def test_two_towers_are_saved_as_the_bi_encoder_with_the_trained_vectors(
    material: Material, config: RetrieverConfig, pooling: str
) -> None:
    from r1_router.retrieval.bi_encoder import TABLE_TOKENS, load_bi_encoder, new_bi_encoder

    train(replace(config, towers=2, pooling=pooling), material)
    trained = load_bi_encoder(config.output, "")
    fresh = new_bi_encoder(config.model, pooling=pooling, unit=pooling == "mean")
    texts = ["how many points had oslo?"]
    assert (trained.question(texts) - fresh.question(texts)).abs().max() > 1e-3
    assert (trained.question(texts) - trained.table(texts)).abs().max() > 1e-3
    assert all(len(trained.table.tokenizer.tokenize(token)) == 1 for token in TABLE_TOKENS)
    assert len(trained.question.tokenizer.tokenize("[Rows]")) > 1
    assert trained.question.tokenizer.model_max_length == config.question_tokens


def test_the_towers_vectors_are_those_of_the_bi_encoder(config: RetrieverConfig) -> None:
    """The dense layer that is trained is BERT's pooler, so an untrained model gives the same vectors in both forms."""
    from r1_router.retrieval.bi_encoder import new_bi_encoder
    from r1_router.training.table_retriever_model import bi_encoder_of, two_towers

    model = two_towers(config.model, pooling="pooler", question_tokens=64, max_tokens=128)
    texts = ["how many points had oslo?", "rome"]
    expected = new_bi_encoder(config.model).question(texts).detach().numpy()
    np.testing.assert_allclose(model.encode_query(texts), expected, atol=1e-5)
    np.testing.assert_allclose(bi_encoder_of(model).question(texts).detach().numpy(), expected, atol=1e-5)


def test_a_model_or_shape_that_cannot_be_used_is_an_error(material: Material, config: RetrieverConfig) -> None:
    with pytest.raises(ConfigError, match="towers"):
        train(replace(config, towers=3), material)
    with pytest.raises(ConfigError, match="retriever"):
        train(replace(config, model=str(config.output / "nowhere")), material)


def test_the_config_names_the_retriever_its_base_and_its_questions(tmp_path: Path) -> None:
    from r1_router.retrieving import _passages, train_retriever

    save_tiny_encoder(tmp_path / "encoder")
    jsonl.rewrite(tmp_path / "table.jsonl", [{"id": city, "title": city, "text": f"{city} table"} for city in CITIES])
    hops = [{"source": TABLE.name, "query": "q", "gold_ids": [CITIES[n]]} for n in range(4)]
    rows = [{"id": f"q{n}", "question": CITIES[n], "answers": ["a"], "hops": [hops[n]]} for n in range(4)]
    jsonl.rewrite(tmp_path / "questions.jsonl", rows)
    source = {"name": TABLE.name, "tag": "tar", "purpose": "tables", "encoder": "text"}
    settings = {"model": "encoder", "output": "out", "epochs": 1.0, "batch_size": 2, "max_tokens": 32}
    config: dict[str, Any] = {
        "llm": {"name": "tiny", "model": "none"},
        "encoders": {"text": {"kind": "sentence", "model": "encoder"}},
        "sources": [{**source, "passages": "table.jsonl", "folder": "indexes/table"}],
        "benchmarks": {},
        "training": {"tables": {"kind": "retriever", "questions": "questions.jsonl", "retriever": settings}},
    }
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    loaded = load_config(tmp_path / "config.yaml")
    card = train_retriever(loaded, "tables", "r1-router train table-retriever")
    assert (card["examples"], card["steps"], card["held_out"]) == (4, 2, {})
    (tmp_path / "corpus").mkdir()
    (tmp_path / "table.jsonl").rename(tmp_path / "corpus" / "passages-00000.jsonl")
    sharded = replace(loaded, sources=(replace(loaded.sources[0], passages=tmp_path / "corpus"),))
    assert _passages(sharded, TABLE.name)[CITIES[0]] == f"{CITIES[0]} table"
    with pytest.raises(DataError, match="missing or empty"):
        _passages(loaded, TABLE.name)
    with pytest.raises(ConfigError, match="there are tables"):
        train_retriever(loaded, "texts", "")
