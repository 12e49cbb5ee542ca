"""The table bi-encoder: its tokens, the released layout and ours, and vectors that are not of unit length."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from conftest import LETTERS
from retrieval_worlds import passage_rows, write_passages
from safetensors.torch import save_file
from transformers import AutoModel, AutoTokenizer, BertConfig, BertModel, BertTokenizerFast

from r1_router.bases import KnowledgeBases
from r1_router.config import load_config
from r1_router.errors import ConfigError
from r1_router.retrieval.bi_encoder import TABLE_TOKENS, BiEncoder, load_bi_encoder, new_bi_encoder, shapes_of
from r1_router.retrieval.table_encoder import TableEncoder
from r1_router.types import Query

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS, *(f"##{letter}" for letter in LETTERS)]
TABLES = ["[Title] alpha [Header] a [sep] b [Rows] [Row] c [sep] d", "[Title] beta [Row] e", "[Caption] f"]
BLOCK = (
    *(f"attention.self.{part}" for part in ("query", "key", "value")),
    "attention.output.dense",
    "attention.output.LayerNorm",
    "intermediate.dense",
    "output.dense",
    "output.LayerNorm",
)


def save_bert(folder: Path, **shape: Any) -> Path:
    """A random BERT over letters, or with `size` words only its configuration and tokenizer."""
    size = shape.pop("size", None)
    tiny = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    words = WORDS + [f"word{n}" for n in range(len(WORDS), size or 0)]
    config = BertConfig(vocab_size=len(words), **(shape or tiny))
    torch.manual_seed(0)
    config.save_pretrained(folder) if size else BertModel(config).save_pretrained(folder)
    BertTokenizerFast(vocab={word: number for number, word in enumerate(words)}).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_bert(tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="module")
def trained(bert: Path) -> BiEncoder:
    """Two towers that differ, as after training."""
    torch.manual_seed(1)
    towers = new_bi_encoder(bert)
    with torch.no_grad():
        for parameter in towers.modules().parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
    return towers


@pytest.fixture(scope="module")
def released(trained: BiEncoder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The towers as `accelerate` leaves a training state of them, made by an older transformers."""
    folder = tmp_path_factory.mktemp("table-retriever")
    state = trained.modules().state_dict()
    for side in ("question_enc", "table_enc"):
        state[f"{side}.embeddings.position_ids"] = torch.arange(512)[None]
    torch.save(state, folder / "pytorch_model.bin")
    (folder / "optimizer.bin").write_bytes(b"never to be read")
    (folder / "splitted_tables.json").write_text("{}")
    return folder


def published_shapes(words: int, width: int = 1024, layers: int = 24) -> dict[str, tuple[int, ...]]:
    """The names and shapes of one BERT, written out."""
    sizes = {"intermediate.dense": (4 * width, width), "output.dense": (width, 4 * width)}
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (words, width),
        "embeddings.position_embeddings.weight": (512, width),
        "embeddings.token_type_embeddings.weight": (2, width),
        "embeddings.LayerNorm.weight": (width,),
        "embeddings.LayerNorm.bias": (width,),
        "pooler.dense.weight": (width, width),
        "pooler.dense.bias": (width,),
    }
    for layer in range(layers):
        for part in BLOCK:
            weight = (width,) if part.endswith("LayerNorm") else sizes.get(part, (width, width))
            shapes |= {f"encoder.layer.{layer}.{part}.weight": weight, f"encoder.layer.{layer}.{part}.bias": weight[:1]}
    return shapes


def test_the_released_names_and_shapes_are_those_of_two_large_berts(tmp_path: Path) -> None:
    large = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
    found = shapes_of(save_bert(tmp_path, size=30522, **large)).modules().state_dict()
    assert all(value.is_meta for value in found.values())
    wanted = {f"question_enc.{key}": shape for key, shape in published_shapes(30522).items()}
    wanted |= {f"table_enc.{key}": shape for key, shape in published_shapes(30522 + 8).items()}
    assert {key: tuple(value.shape) for key, value in found.items()} == wanted


def test_the_table_tokenizer_alone_knows_the_marks(trained: BiEncoder) -> None:
    question, table = trained.question.tokenizer, trained.table.tokenizer
    assert len(table) == len(question) + len(TABLE_TOKENS) == trained.table.model.config.vocab_size
    assert not set(TABLE_TOKENS) & set(question.tokenize(" ".join(TABLE_TOKENS)))
    ids = table("".join(TABLE_TOKENS), add_special_tokens=False)["input_ids"]
    assert ids == list(range(len(question), len(table)))
    assert trained.question.model.embeddings.word_embeddings.num_embeddings == len(question)


def test_a_released_state_gives_the_poolers_outputs(released: Path, bert: Path, trained: BiEncoder) -> None:
    encoder = TableEncoder(released, bert)
    for encode, tower, texts in (
        (encoder.encode, trained.question, ["what is c?", "who"]),
        (encoder.encode_passages, trained.table, TABLES),
    ):
        for row, text in zip(encode([Query(text) for text in texts]), texts, strict=True):
            tokens = tower.tokenizer(text, return_tensors="pt")
            with torch.inference_mode():
                wanted = tower.model(**tokens).pooler_output[0]
            np.testing.assert_allclose(row, wanted, atol=1e-5)
    assert not np.allclose(np.linalg.norm(encoder.encode([Query("who")]), axis=1), 1, atol=0.1)


def test_a_safetensors_state_is_preferred(released: Path, bert: Path, trained: BiEncoder, tmp_path: Path) -> None:
    state = {key: torch.ones_like(value) for key, value in trained.modules().state_dict().items()}
    shutil.copytree(released, tmp_path / "deep" / "state")
    save_file(state, tmp_path / "deep" / "state" / "model.safetensors")
    assert load_bi_encoder(tmp_path, bert).question.model.pooler.dense.bias.eq(1).all()


def test_saved_and_loaded_again_it_is_the_same(trained: BiEncoder, tmp_path: Path) -> None:
    trained.save(tmp_path)
    again = load_bi_encoder(tmp_path, "no base is needed")
    with torch.inference_mode():
        torch.testing.assert_close(again.table(TABLES), trained.table(TABLES))
    assert (again.question.tokenizer.model_max_length, again.table.tokenizer.model_max_length) == (64, 512)
    assert isinstance(AutoModel.from_pretrained(tmp_path / "table"), BertModel)
    assert AutoTokenizer.from_pretrained(tmp_path / "table").tokenize("[sep]") == ["[sep]"]
    (tmp_path / "bi_encoder.json").write_text("{}")
    with pytest.raises(ConfigError, match="how vectors are pooled"):
        load_bi_encoder(tmp_path, "")


def test_the_mean_of_the_tokens_and_unit_length_are_kept(bert: Path, tmp_path: Path) -> None:
    towers = new_bi_encoder(bert, pooling="mean", unit=True)
    towers.save(tmp_path)
    rows = TableEncoder(tmp_path).encode([Query("abc"), Query("a longer question")])
    tokens = towers.question.tokenizer("abc", return_tensors="pt")
    with torch.inference_mode():
        mean = towers.question.model(**tokens).last_hidden_state[0].mean(0)
    np.testing.assert_allclose(rows[0], mean / mean.norm(), atol=1e-5)


def test_rows_do_not_depend_on_their_batch_and_questions_are_cut(released: Path, bert: Path) -> None:
    encoder = TableEncoder(released, bert, batch_size=2)
    items = [Query("a " * 200), Query("who is it"), Query(""), Query("b")]
    for encode in (encoder.encode, encoder.encode_passages):
        rows = encode(items)
        np.testing.assert_allclose(rows, np.concatenate([encode([item]) for item in items]), atol=1e-5)
        assert encode([]).shape == (0, encoder.dim)
    cut, longer = encoder.encode([Query("a " * 62), Query("a " * 62 + "b c d")])
    np.testing.assert_allclose(cut, longer, atol=1e-5)  # 62 words and the two marks are 64 tokens
    assert not np.allclose(cut, encoder.encode([Query("a " * 61)])[0], atol=1e-5)
    tables = encoder.encode_passages([Query("a " * 510), Query("a " * 510 + "b"), Query("a " * 509)])
    np.testing.assert_allclose(tables[0], tables[1], atol=1e-5)
    assert not np.allclose(tables[0], tables[2], atol=1e-5)


def test_a_wrong_or_cut_state_is_refused_with_its_keys(released: Path, bert: Path, tmp_path: Path) -> None:
    state = torch.load(released / "pytorch_model.bin")
    missing = "table_enc.encoder.layer.1.output.dense.weight"
    del state[missing]
    state["table_enc.embeddings.word_embeddings.weight"] = torch.zeros(len(WORDS), 32)
    torch.save(state, tmp_path / "pytorch_model.bin")
    with pytest.raises(ConfigError) as refused:
        load_bi_encoder(tmp_path, bert)
    assert f"1 keys missing: {missing}" in str(refused.value)
    assert f"word_embeddings.weight ({len(WORDS)}, 32) for ({len(WORDS) + 8}, 32)" in str(refused.value)
    (tmp_path / "pytorch_model.bin").write_bytes((released / "pytorch_model.bin").read_bytes()[:9000])
    with pytest.raises(ConfigError, match="cannot be read as weights"):
        load_bi_encoder(tmp_path, bert)
    with pytest.raises(ConfigError, match=r"none of model\.safetensors"):
        load_bi_encoder(bert.parent / "nothing", bert)
    with pytest.raises(ConfigError, match="needs bert-large-uncased"):
        load_bi_encoder(released, "no/such-base")


def test_one_config_line_serves_tables_by_inner_product(released: Path, bert: Path, tmp_path: Path) -> None:
    write_passages(tmp_path, passage_rows(TABLES))
    section = {"name": "table retriever", "tag": "tar", "purpose": "p", "passages": "kb/text.jsonl", "folder": "base"}
    config = {
        "llm": {"name": "none", "model": "none"},
        "encoders": {"table": {"kind": "table", "model": str(released), "base": str(bert)}},
        "sources": [section | {"encoder": "table"}],
        "benchmarks": {},
    }
    path = tmp_path / "c.yaml"
    path.write_text(yaml.safe_dump(config))
    bases = KnowledgeBases(load_config(path))
    assert bases.build() == {"table retriever": 3}
    (base,) = bases.load().values()
    (found,) = base.search_many([Query("what is c?")], 3)  # type: ignore[attr-defined]
    encoder = TableEncoder(released, bert)
    scores = (encoder.encode_passages([Query(text) for text in TABLES]) @ encoder.encode([Query("what is c?")]).T)[:, 0]
    assert [passage.id for passage in found] == [f"p{n}" for n in np.argsort(-scores)]
    assert [passage.score for passage in found] == pytest.approx(sorted(scores, reverse=True), abs=1e-4)
    config["sources"][0]["lexical_weight"] = 0.5  # type: ignore[index]
    path.write_text(json.dumps(config))
    with pytest.raises(ConfigError, match="take fusion: rrf"):
        load_config(path)
