"""Score fusion in one space, as in UniIR: a CLIP's image and text vectors are summed, and the sum made unit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from r1_router.dtypes import torch_dtype
from r1_router.errors import DataError
from r1_router.pictures import open_picture
from r1_router.retrieval.clip_model import OPENAI, load_clip
from r1_router.retrieval.instructions import BOTH, IMAGE, TEXT, modality, sentence
from r1_router.retrieval.vectors import Vectors, unit_rows, weights_fingerprint
from r1_router.types import Query

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class Asking:
    """Which parts of queries and of stored items are looked at, and what is put before a query's text.

    `instructions` go by the parts that a query has: one without a picture is told another thing than one with.
    """

    query: str = BOTH
    candidate: str = TEXT
    instructions: Mapping[str, str] = field(default_factory=dict)


class ClipEncoder:
    """A CLIP, from any form that `load_clip` reads. Texts are cut at `max_tokens`, CLIP's own 77 at most.

    An item with one of the parts has that one's vector. Raises DataError for a picture that cannot be opened, and for
    an item with none of the parts that are looked at.
    """

    def __init__(
        self,
        model: str,
        base: str = OPENAI,
        *,
        asking: Asking | None = None,
        max_tokens: int = 77,
        batch_size: int = 32,
        device: str = "cpu",
        dtype: str = "float32",
    ) -> None:
        self._clip = load_clip(model, base)
        self._asking = asking or Asking()
        config = self._clip.model.config
        self._max_tokens = min(max_tokens, config.text_config.max_position_embeddings)
        self.dim: int = config.projection_dim
        self.settings: dict[str, Any] = {
            "encoder": "clip",
            "candidate": self._asking.candidate,
            "max_tokens": self._max_tokens,
            "weights": weights_fingerprint(self._clip.model),
        }
        self._clip.model.to(device=device, dtype=torch_dtype(dtype, device))
        self._batch_size = batch_size
        self._lock = Lock()  # a fast tokenizer cannot be used by two threads

    def encode(self, items: Sequence[Query]) -> Vectors:
        """Unit rows for queries, float32 of shape (len(items), dim)."""
        asked = [_part_of(item, self._asking.query) for item in items]
        return self._vectors([self._instructed(item) for item in asked])

    def encode_passages(self, items: Sequence[Query]) -> Vectors:
        """Unit rows for stored items, float32 of shape (len(items), dim)."""
        return self._vectors([_part_of(item, self._asking.candidate) for item in items])

    def _instructed(self, item: Query) -> Query:
        instruction = self._asking.instructions.get(modality(item.text, item.image), "")
        return replace(item, text=f"{instruction} {item.text}".strip())

    def _vectors(self, items: Sequence[Query]) -> Vectors:
        rows = np.zeros((len(items), self.dim), dtype=np.float32)
        for start in range(0, len(items), self._batch_size):
            part = items[start : start + self._batch_size]
            if with_text := [row for row, item in enumerate(part) if sentence(item.text)]:
                rows[[start + row for row in with_text]] += self._texts([sentence(part[row].text) for row in with_text])
            if with_image := [row for row, item in enumerate(part) if item.image]:
                rows[[start + row for row in with_image]] += self._images([str(part[row].image) for row in with_image])
        return unit_rows(rows)

    def _texts(self, texts: Sequence[str]) -> Vectors:
        import torch

        with self._lock, torch.inference_mode():
            tokens = self._clip.tokenizer(
                list(texts), padding=True, truncation=True, max_length=self._max_tokens, return_tensors="pt"
            )
            return _rows(self._clip.model.get_text_features(**tokens.to(self._clip.model.device)))

    def _images(self, paths: Sequence[str]) -> Vectors:
        import torch

        model = self._clip.model
        pixels = torch.from_numpy(np.stack([self._clip.pixels(open_picture(path)) for path in paths]))
        with torch.inference_mode():
            return _rows(model.get_image_features(pixel_values=pixels.to(device=model.device, dtype=model.dtype)))


def _part_of(item: Query, parts: str) -> Query:
    """The item without what is not looked at; raises DataError where nothing is left."""
    kept = Query(item.text if TEXT in parts.split(",") else "", item.image if IMAGE in parts.split(",") else None)
    if not sentence(kept.text) and not kept.image:
        raise DataError(f"The CLIP encoder looks at {parts!r}, and an item has none of it: {item.text!r}.")
    return kept


def _rows(output: Any) -> Vectors:
    """The projected vectors: the library's later versions give them as the pooler's output."""
    vectors: Tensor = getattr(output, "pooler_output", output)
    rows: Vectors = vectors.float().cpu().numpy()
    return rows
