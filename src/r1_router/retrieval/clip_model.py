"""A CLIP from where it is published, as the transformers library's CLIPModel with its tokenizer and picture size.

Four forms are read: a transformers folder or hub name; an open-clip folder (`open_clip_config.json` beside the
weights); UniIR's checkpoint, whose CLIP is under `clip_model.` in the entry `model`; and a bare state dict with
OpenAI's names. The last two hold weights alone: their configuration and tokenizer are those of `base`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from r1_router.errors import ConfigError
from r1_router.retrieval.clip_keys import open_clip_config, to_transformers
from r1_router.retrieval.state_dicts import read_state, require_layout, weights_in

OPENAI = "openai/clip-vit-large-patch14"
"""What UniIR's large checkpoint was tuned from; its configuration and tokenizer are read, not its weights."""
PREFIX = "clip_model."
OPEN_CLIP = "open_clip_config.json"
OPEN_CLIP_WEIGHTS = ("open_clip_model.safetensors", "open_clip_pytorch_model.bin")
STATE_DICTS = ("*.pth", "*.pt", "*.safetensors", "*.bin")
PREPROCESSOR = "preprocessor_config.json"
MEAN = (0.48145466, 0.4578275, 0.40821073)
DEVIATION = (0.26862954, 0.26130258, 0.27577711)
"""Of the channels, as published with CLIP."""
LONGEST = 8
"""Sides longer than this many times the other are cut before the picture is resized: a line would become huge."""


@dataclass(frozen=True, slots=True, eq=False)
class Clip:
    """A loaded CLIP in 32 bits; `mean` and `deviation` are those of its pictures' channels."""

    model: Any
    tokenizer: Any
    mean: tuple[float, ...] = MEAN
    deviation: tuple[float, ...] = DEVIATION

    def pixels(self, image: Image.Image) -> NDArray[np.float32]:
        """The picture as the model takes it: its middle square resized, shape (3, size, size)."""
        size = self.model.config.vision_config.image_size
        square = np.asarray(middle_square(image, size), dtype=np.float32) / 255
        mean, deviation = (np.array(values, dtype=np.float32) for values in (self.mean, self.deviation))
        return ((square - mean) / deviation).transpose(2, 0, 1).astype(np.float32, copy=False)


def middle_square(image: Image.Image, size: int) -> Image.Image:
    """The shorter side resized to `size`, then the middle cut out, rounded as CLIP's published transform does."""
    width, height = image.size
    shorter, most = min(width, height), LONGEST * min(width, height)
    if max(width, height) > most:
        left, top = max(0, (width - most) // 2), max(0, (height - most) // 2)
        image = image.crop((left, top, left + min(width, most), top + min(height, most)))
        width, height = image.size
    resized = image.resize((size * width // shorter, size * height // shorter), Image.Resampling.BICUBIC)
    left, top = (round((side - size) / 2) for side in resized.size)
    return resized.crop((left, top, left + size, top + size))


def load_clip(model: str, base: str = OPENAI) -> Clip:
    """The CLIP that `model` names, in any of the four forms.

    Raises ConfigError where there is none, and where weights are not those of the configuration, naming the keys.
    """
    path = Path(model)
    if (path / OPEN_CLIP).is_file():
        return _from_open_clip(path, base)
    if path.exists() and not (path / "config.json").is_file():
        return _from_state(weights_in(path, STATE_DICTS), base)
    from transformers import CLIPModel

    mean, deviation = _channels(path / PREPROCESSOR)
    return Clip(_pretrained(CLIPModel, model).float().eval(), _tokenizer(model), mean, deviation)


def _from_state(path: Path, base: str) -> Clip:
    """UniIR's checkpoint, or a bare state dict."""
    from transformers import CLIPConfig

    state = read_state(path)
    state = state["model"] if isinstance(state.get("model"), dict) else state
    if any(key.startswith(PREFIX) for key in state):
        state = {key.removeprefix(PREFIX): value for key, value in state.items()}
    return Clip(_filled(state, _pretrained(CLIPConfig, base), path), _tokenizer(base))


def _from_open_clip(folder: Path, base: str) -> Clip:
    weights = weights_in(folder, OPEN_CLIP_WEIGHTS)
    try:
        model = json.loads((folder / OPEN_CLIP).read_text(encoding="utf-8"))
        config = open_clip_config(model["model_cfg"], str(folder / OPEN_CLIP))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{folder / OPEN_CLIP} is not open-clip's description of a model ({error!r}).") from error
    tokenizer = _tokenizer(str(folder) if (folder / "tokenizer_config.json").is_file() else base)
    preprocess = model.get("preprocess_cfg", {})
    mean, deviation = tuple(preprocess.get("mean", MEAN)), tuple(preprocess.get("std", DEVIATION))
    return Clip(_filled(read_state(weights), config, weights), tokenizer, mean, deviation)


def _filled(state: dict[str, Any], config: Any, path: Path) -> Any:
    """The model of `config` with the weights in `state`, which have OpenAI's names."""
    import torch
    from transformers import CLIPModel

    renamed = to_transformers(state)
    with torch.device("meta"):  # shapes without memory
        expected = CLIPModel(config).state_dict()
    require_layout(renamed, expected, path)
    return CLIPModel.from_pretrained(None, config=config, state_dict=renamed).float().eval()


def _tokenizer(model: str) -> Any:
    from transformers import CLIPTokenizer

    return _pretrained(CLIPTokenizer, model)


def _pretrained(kind: Any, model: str) -> Any:
    try:
        return kind.from_pretrained(model)
    except (OSError, ValueError, TypeError) as error:
        raise ConfigError(
            f"No {kind.__name__} at {model!r} ({error}). Give a folder or a file with a CLIP, or a hub name while "
            "the hub can be reached, as the encoder's `model` in the config; weights alone need a `base` as well."
        ) from error


def _channels(path: Path) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The channels' mean and deviation that a transformers folder states, or CLIP's."""
    stated = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return tuple(stated.get("image_mean", MEAN)), tuple(stated.get("image_std", DEVIATION))
