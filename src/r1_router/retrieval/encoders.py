"""Text to vectors by a sentence-transformers model, and text with images by score fusion."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from r1_router.dtypes import torch_dtype
from r1_router.errors import ConfigError, MissingDependency
from r1_router.retrieval.vectors import PassageEncoder, Vectors, unit_rows, weights_fingerprint
from r1_router.types import Query

INSTALL = "pip install sentence-transformers"


class SentenceEncoder:
    """A sentence-transformers model from a folder or a hub name: all-MiniLM-L6-v2, BAAI/bge-m3 and their like.

    Texts are cut at `max_tokens` (256 in the reference), or earlier where the model takes fewer. `pooling` (cls, mean,
    lasttoken, ..) is for a plain transformers model, or in place of the model's own. `query_prompt` and
    `passage_prompt` are put before the texts; None: the model's own, if it has one. An item's image is not looked at.
    Raises ConfigError where no such model can be loaded.
    """

    def __init__(
        self,
        model: str | Path,
        *,
        max_tokens: int = 256,
        batch_size: int = 32,
        device: str | None = None,
        dtype: str = "float32",
        pooling: str | None = None,
        query_prompt: str | None = None,
        passage_prompt: str | None = None,
    ) -> None:
        self._model = _load_sentence_model(str(model), device, pooling)
        self._model.max_seq_length = min(max_tokens, self._model.max_seq_length or max_tokens)
        self._batch_size = batch_size
        self._query_prompt, self._passage_prompt = query_prompt, passage_prompt
        self._lock = Lock()  # a fast tokenizer cannot be used by two threads, and several knowledge bases may share one
        self.dim: int = self._model.get_embedding_dimension()
        self.settings: dict[str, Any] = {
            "encoder": "sentence",
            "max_tokens": self._model.max_seq_length,
            "modules": [type(module).__name__ for module in self._model],
            "weights": weights_fingerprint(self._model),  # in full precision: any dtype searches what another has made
        }
        asked = {"pooling": pooling, "passage_prompt": passage_prompt}
        self.settings |= {key: value for key, value in asked.items() if value is not None}
        self._model.to(torch_dtype(dtype, self._model.device.type))

    def encode(self, items: Sequence[Query]) -> Vectors:
        """Unit rows for queries, float32 of shape (len(items), dim); sorted by length inside, so any order is fast."""
        return self._vectors(items, self._model.encode_query, self._query_prompt)

    def encode_passages(self, items: Sequence[Query]) -> Vectors:
        """Unit rows for passages, float32 of shape (len(items), dim); the same as queries' but for the prompt."""
        return self._vectors(items, self._model.encode_document, self._passage_prompt)

    def _vectors(self, items: Sequence[Query], encode: Callable[..., Any], prompt: str | None) -> Vectors:
        if not items:
            return np.zeros((0, self.dim), dtype=np.float32)
        texts = [item.text for item in items]
        with self._lock:
            rows = encode(texts, prompt=prompt, batch_size=self._batch_size, show_progress_bar=False)
        return unit_rows(rows.astype(np.float32))


def _load_sentence_model(model: str, device: str | None, pooling: str | None) -> Any:
    try:
        from sentence_transformers import SentenceTransformer
        from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer
    except ImportError as error:
        raise MissingDependency(f"The text encoder needs sentence-transformers: {INSTALL}") from error
    try:
        if pooling is None:
            return SentenceTransformer(model, device=device, trust_remote_code=False)
        transformer = Transformer(model)
        pooled = Pooling(transformer.get_embedding_dimension(), pooling)
        return SentenceTransformer(modules=[transformer, pooled, Normalize()], device=device)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"No sentence-transformers model at {model!r} ({error}). Give a folder that holds one, or a hub name "
            "while the hub can be reached, as the encoder's `model` in the config."
        ) from error


class FusedEncoder:
    """Score fusion as in UniIR: the vectors of an item's modalities are summed, and the sum made unit.

    The two encoders share no space here, so each has its own dimensions (image first) and the sum is their
    concatenation: the score adds image-to-image and text-to-text. An item with one modality has zeros for the other.
    `image_weight` is the image's share, 0 to 1, in an item that has both: at 0.5 the words of a question about a flag
    ("which country's ...") lead to the wrong caption for one flag in twelve, at 0.7 for none of 110.
    """

    def __init__(self, image: PassageEncoder, text: PassageEncoder, *, image_weight: float = 0.7) -> None:
        if not 0 < image_weight < 1:
            raise ConfigError(f"image_weight must lie between 0 and 1, found {image_weight}. Mend it in the config.")
        self._image = image
        self._text = text
        self._image_weight = image_weight
        self.dim = image.dim + text.dim
        self.settings: dict[str, Any] = {
            "encoder": "fused",
            "image": dict(image.settings),
            "text": dict(text.settings),
            "image_weight": image_weight,
        }

    def encode(self, items: Sequence[Query]) -> Vectors:
        """Unit rows for queries, float32 of shape (len(items), dim); an item with neither modality is a zero row."""
        return self._fuse(items, self._image.encode, self._text.encode)

    def encode_passages(self, items: Sequence[Query]) -> Vectors:
        """Unit rows for stored items, float32 of shape (len(items), dim)."""
        return self._fuse(items, self._image.encode_passages, self._text.encode_passages)

    def _fuse(
        self,
        items: Sequence[Query],
        encode_images: Callable[[Sequence[Query]], Vectors],
        encode_texts: Callable[[Sequence[Query]], Vectors],
    ) -> Vectors:
        rows = np.zeros((len(items), self.dim), dtype=np.float32)
        images, texts = rows[:, : self._image.dim], rows[:, self._image.dim :]
        if with_image := [row for row, item in enumerate(items) if item.image]:
            images[with_image] = self._image_weight * encode_images([items[row] for row in with_image])
        if with_text := [row for row, item in enumerate(items) if item.text]:
            texts[with_text] = (1 - self._image_weight) * encode_texts([items[row] for row in with_text])
        return unit_rows(rows)
