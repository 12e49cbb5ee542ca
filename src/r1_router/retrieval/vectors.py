"""What the encoders share: unit rows, a fingerprint of their weights, and the protocol they follow."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from r1_router.types import Query

Vectors = NDArray[np.float32]
FINGERPRINT_VALUES = 64  # of each parameter: any training changes them, and a large model is hashed in milliseconds


class PassageEncoder(Protocol):
    """An `Encoder` whose passages may be treated unlike its queries, and which says what its vectors depend on.

    `settings` are plain JSON values, kept in a knowledge base's manifest: equal settings, equal vectors.
    """

    dim: int

    @property
    def settings(self) -> Mapping[str, Any]: ...

    def encode(self, items: Sequence[Query]) -> Vectors: ...

    def encode_passages(self, items: Sequence[Query]) -> Vectors: ...


def unit_rows(rows: NDArray[Any]) -> Vectors:
    """Rows scaled to length 1, as contiguous float32; a zero row stays zero."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.ascontiguousarray(rows / np.maximum(lengths, 1e-12), dtype=np.float32)


def weights_fingerprint(module: Any) -> str:
    """16 hex digits of a torch module's parameter names, shapes and first values; where it was loaded from is moot."""
    digest = hashlib.sha256()
    for name, parameter in sorted(module.named_parameters()):
        values = parameter.detach().flatten()[:FINGERPRINT_VALUES].float().cpu().numpy()
        digest.update(f"{name}{tuple(parameter.shape)}".encode() + values.tobytes())
    return digest.hexdigest()[:16]
