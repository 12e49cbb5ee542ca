"""The cross-encoder: the order and the scores of the library's own, over what a search found."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import torch
from conftest import VOCABULARY
from retrieval_worlds import TEXTS, passage_rows, write_passages
from test_fusion import config_of
from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

from r1_router.bases import KnowledgeBases
from r1_router.config import load_config
from r1_router.errors import ConfigError
from r1_router.retrieval.encoders import SentenceEncoder
from r1_router.retrieval.rerank import CrossEncoderScorer, Reranked
from r1_router.types import Query


def save_cross_encoder(folder: Path, labels: int = 1) -> Path:
    torch.manual_seed(5)
    shape = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    config = BertConfig(vocab_size=len(VOCABULARY), max_position_embeddings=64, num_labels=labels, **shape)
    BertForSequenceClassification(config).save_pretrained(folder)
    vocabulary = {token: number for number, token in enumerate(VOCABULARY)}
    BertTokenizerFast(vocab=vocabulary, model_max_length=64).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def cross_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_cross_encoder(tmp_path_factory.mktemp("cross"))


def test_one_config_line_puts_passages_in_the_cross_encoders_order(
    cross_encoder: Path, encoder: SentenceEncoder, tmp_path: Path
) -> None:
    from sentence_transformers import CrossEncoder

    encoder._model.save(str(tmp_path / "bert"))
    write_passages(tmp_path, passage_rows())
    plain = KnowledgeBases(load_config(config_of(tmp_path, tmp_path / "bert")))
    plain.build()
    config = load_config(config_of(tmp_path, tmp_path / "bert", reranker=str(cross_encoder), rerank_depth=3))
    reranked = KnowledgeBases(config)
    (before,), (base,) = plain.load().values(), reranked.load().values()
    assert isinstance(base, Reranked) and len(base) == len(TEXTS)
    query = Query("beta mountain of the north")
    (read,) = before.search_many([query], 3)  # type: ignore[attr-defined]
    scores = CrossEncoder(str(cross_encoder)).predict([(query.text, passage.text) for passage in read])
    wanted = sorted(zip(scores.tolist(), (passage.id for passage in read), strict=True), reverse=True)
    (found,) = base.search_many([query], 2)
    assert [passage.id for passage in found] == [id_ for _, id_ in wanted[:2]]
    assert [passage.score for passage in found] == pytest.approx([score for score, _ in wanted[:2]], abs=1e-5)
    assert asyncio.run(base.search(query, 2)) == found
    assert len(base.search_many([query], 5)[0]) == 5  # more are asked for than `rerank_depth`
    assert plain.digest() != reranked.digest()


def test_pairs_are_scored_alike_alone_and_together(cross_encoder: Path) -> None:
    scorer = CrossEncoderScorer(str(cross_encoder), batch_size=2)
    pairs = [("a", "b"), ("a longer question", "its answer " * 30), ("c", "")]
    assert scorer.scores(pairs) == pytest.approx([scorer.scores([pair])[0] for pair in pairs], abs=1e-5)
    assert scorer.scores([]) == []


def test_another_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Mend the source's `reranker`"):
        CrossEncoderScorer(str(tmp_path / "nothing"))
    with pytest.raises(ConfigError, match="3 classes apart"):
        CrossEncoderScorer(str(save_cross_encoder(tmp_path / "three", labels=3)))
