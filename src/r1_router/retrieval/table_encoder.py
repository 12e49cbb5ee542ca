"""Questions and linearised tables to vectors by the two towers of a bi-encoder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from r1_router.dtypes import torch_dtype
from r1_router.retrieval.bi_encoder import BiEncoder, Tower, load_bi_encoder
from r1_router.retrieval.vectors import Vectors, weights_fingerprint
from r1_router.types import Query

BERT = "google-bert/bert-large-uncased"
"""What the released checkpoint was tuned from; its configuration and tokenizer are read, not its weights."""


class TableEncoder:
    """The bi-encoder in `model`, trained here or released, as a knowledge base's encoder; images are not looked at.

    Rows are the poolers' outputs and as long as they come, as the model was trained: a score is an inner product, not
    a cosine. The index compares by inner product and never scales, so rows need not be unit for it.
    """

    def __init__(
        self,
        model: Path,
        base: str | Path = BERT,
        *,
        batch_size: int = 32,
        device: str = "cpu",
        dtype: str = "float32",
    ) -> None:
        towers = load_bi_encoder(model, base)
        self.settings: dict[str, Any] = {
            "encoder": "table",
            "lengths": [towers.question.tokenizer.model_max_length, towers.table.tokenizer.model_max_length],
            "pooling": towers.question.pooling,
            "unit": towers.question.unit,
            "weights": weights_fingerprint(towers.modules()),
        }
        towers.modules().to(device=device, dtype=torch_dtype(dtype, device))
        self.towers: BiEncoder = towers
        self.dim: int = towers.question.model.config.hidden_size
        self._batch_size = batch_size
        self._lock = Lock()  # a fast tokenizer cannot be used by two threads

    def encode(self, items: Sequence[Query]) -> Vectors:
        """Rows of questions, float32 of shape (len(items), dim)."""
        return self._vectors(self.towers.question, items)

    def encode_passages(self, items: Sequence[Query]) -> Vectors:
        """Rows of tables, float32 of shape (len(items), dim)."""
        return self._vectors(self.towers.table, items)

    def _vectors(self, tower: Tower, items: Sequence[Query]) -> Vectors:
        """Encoded by length, so that little is padded, and put back in order."""
        import torch

        rows = np.zeros((len(items), self.dim), dtype=np.float32)
        order = np.argsort([len(item.text) for item in items])
        for start in range(0, len(items), self._batch_size):
            places = order[start : start + self._batch_size]
            with self._lock, torch.inference_mode():
                rows[places] = tower([items[place].text for place in places]).float().cpu().numpy()
        return rows
