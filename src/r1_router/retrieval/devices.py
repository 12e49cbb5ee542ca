"""One encoder on several devices: each copy takes a share of the items, all at the same time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from r1_router.retrieval.vectors import PassageEncoder, Vectors
from r1_router.types import Query


class SpreadEncoder:
    """Equal encoders, one a device, as one; a single item goes to the first.

    Threads are enough: a GPU's work is waited for outside Python's lock.
    """

    def __init__(self, encoders: Sequence[PassageEncoder]) -> None:
        self._encoders = encoders
        self._pool = ThreadPoolExecutor(len(encoders), thread_name_prefix="encoder")
        self.dim: int = encoders[0].dim
        self.settings: Mapping[str, Any] = encoders[0].settings

    def encode(self, items: Sequence[Query]) -> Vectors:
        """Rows of queries, float32 of shape (len(items), dim)."""
        return self._spread(items, [encoder.encode for encoder in self._encoders])

    def encode_passages(self, items: Sequence[Query]) -> Vectors:
        """Rows of stored items, float32 of shape (len(items), dim)."""
        return self._spread(items, [encoder.encode_passages for encoder in self._encoders])

    def _spread(self, items: Sequence[Query], encodes: Sequence[Callable[[Sequence[Query]], Vectors]]) -> Vectors:
        share = max(1, -(-len(items) // len(encodes)))
        parts = [items[start : start + share] for start in range(0, max(1, len(items)), share)]
        return np.concatenate(list(self._pool.map(lambda encode, part: encode(part), encodes, parts)))
