"""Pictures to vectors: EfficientNet-lite0 features beside a colour grid that exposure and fading do not move.

Neither part is trained here. The network tells photographs apart but confuses flags of like design; the grid (what
colour lies where) is the reverse, once a flag shown askew is straightened. First places measured among 363 pictures:
distorted flags 0.99 by the grid alone, 0.59 by the network alone; cropped photographs 0.52 and 0.98. Hence a query is
weighted by what it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from r1_router.errors import ConfigError, DataError, MissingDependency
from r1_router.pictures import open_picture
from r1_router.retrieval.plain_background import straightened
from r1_router.retrieval.vectors import Vectors, unit_rows, weights_fingerprint
from r1_router.types import Query

INPUT_SIZE = (224, 224)
GRID = (12, 8)  # columns, rows
FEATURES = 1280
CHROMA_WEIGHT = 0.6  # of colour against brightness in the grid
STRAIGHTENED_WEIGHTS = (0.25, 1.0)  # of network and grid, for queries; rows are made unit afterwards
PHOTOGRAPH_WEIGHTS = (2.0, 1.0)
PASSAGE_WEIGHTS = (1.0, 1.0)
INSTALL = "pip install efficientnet-lite-pytorch safetensors"
WEIGHTS = "model.safetensors"


class EfficientNetEncoder:
    """Image vectors of dimension 1280 + 288; an item's text is not looked at.

    `encode` is for queries, where a flat picture on a plain background is straightened first; `encode_passages` takes
    stored pictures as they are (a flag with a border would lose it). Raises DataError for an item without an image.
    `folder` holds `model.safetensors`.
    """

    dim = FEATURES + GRID[0] * GRID[1] * 3

    def __init__(self, folder: str | Path, *, batch_size: int = 16) -> None:
        self._network = _load_network(Path(folder))
        self._batch_size = batch_size
        self.settings: dict[str, Any] = {
            "encoder": "efficientnet_lite0+grid",
            "grid": list(GRID),
            "weights": weights_fingerprint(self._network),
        }

    def encode(self, items: Sequence[Query]) -> Vectors:
        """Unit rows for queries, float32 of shape (len(items), dim)."""
        images, weights = [], []
        for item in items:
            image = open_picture(_path(item))
            flat = straightened(image, INPUT_SIZE)
            images.append(flat or image)
            weights.append(STRAIGHTENED_WEIGHTS if flat else PHOTOGRAPH_WEIGHTS)
        return self._vectors(images, weights)

    def encode_passages(self, items: Sequence[Query]) -> Vectors:
        """Unit rows for stored pictures, float32 of shape (len(items), dim)."""
        return self._vectors([open_picture(_path(item)) for item in items], [PASSAGE_WEIGHTS] * len(items))

    def _vectors(self, images: Sequence[Image.Image], weights: Sequence[tuple[float, float]]) -> Vectors:
        if not images:
            return np.zeros((0, self.dim), dtype=np.float32)
        network = unit_rows(np.concatenate(list(self._features(images))))
        grids = unit_rows(np.stack([colour_grid(image) for image in images]))
        scale = np.array(weights, dtype=np.float32)
        return unit_rows(np.concatenate([network * scale[:, :1], grids * scale[:, 1:]], axis=1))

    def _features(self, images: Sequence[Image.Image]) -> Iterator[NDArray[np.float32]]:
        import torch

        for start in range(0, len(images), self._batch_size):
            part = images[start : start + self._batch_size]
            resized = [image.resize(INPUT_SIZE, Image.Resampling.BICUBIC) for image in part]
            pixels = torch.from_numpy(np.stack([np.asarray(image, dtype=np.float32) for image in resized]))
            with torch.inference_mode():
                maps = self._network.extract_features((pixels.permute(0, 3, 1, 2) - 127) / 128)
            yield maps.mean(dim=(2, 3)).numpy()


def colour_grid(image: Image.Image) -> NDArray[np.float32]:
    """What colour lies where: for each of 12 x 8 cells its brightness plus how each channel departs from it.

    Brightness is relative to the brightest cells and colour to the most saturated ones, so that neither exposure nor
    fading changes much. Shape (288,), not of unit length.
    """
    cells = np.asarray(image.resize(GRID, Image.Resampling.BOX), dtype=np.float32) / 255
    cells = np.clip(cells / max(float(np.percentile(cells, 98)), 0.2), 0, 1.2)
    brightness = cells.mean(axis=-1, keepdims=True)
    chroma = cells - brightness
    chroma = chroma / max(float(np.percentile(np.abs(chroma), 98)), 0.1)
    return (brightness - 0.5 + CHROMA_WEIGHT * chroma).ravel()


def _path(item: Query) -> str:
    if not item.image:
        raise DataError(f"The image encoder got an item without an image: {item.text!r}. Use a fused encoder for both.")
    return item.image


def _load_network(folder: Path) -> Any:
    try:
        import torch
        from efficientnet_lite_pytorch import EfficientNet
        from safetensors import SafetensorError
        from safetensors.torch import load_file
    except ImportError as error:
        raise MissingDependency(f"The image encoder needs {error.name}: {INSTALL}") from error
    network = EfficientNet.from_name("efficientnet-lite0")
    try:
        network.load_state_dict(load_file(folder / WEIGHTS))
    except (OSError, SafetensorError, RuntimeError) as error:
        raise ConfigError(
            f"No EfficientNet-lite0 weights in {folder / WEIGHTS} ({error}). Remove the folder and run again: "
            "the embedded models are made anew where one is missing."
        ) from error
    return network.eval().to(memory_format=torch.channels_last)
