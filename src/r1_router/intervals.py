"""Seeded bootstrap intervals over questions, for one method's scores or the difference of two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from r1_router.errors import DataError

LEVEL = 95.0
"""Percent of the resampled means that an interval holds."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean over questions and the percentile interval of its bootstrap."""

    mean: float
    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        """Whether the whole interval lies on one side of 0: a difference that chance does not explain."""
        return self.low > 0 or self.high < 0


def bootstrap(values: Sequence[float], seed: int, n: int = 2000) -> Interval:
    """The mean of `values` (one a question) with its 95% interval from `n` resamples of the questions."""
    sample = np.asarray(values, dtype=np.float64)
    if sample.ndim != 1 or sample.size == 0:
        raise DataError(f"A bootstrap needs one value a question and at least one; found shape {sample.shape}.")
    rng = np.random.default_rng(seed)
    means = [sample[rng.integers(0, sample.size, sample.size)].mean() for _ in range(n)]
    tail = (100 - LEVEL) / 2
    low, high = np.percentile(means, [tail, 100 - tail])
    return Interval(float(sample.mean()), float(low), float(high))


def paired_bootstrap(a: Sequence[float], b: Sequence[float], seed: int, n: int = 2000) -> Interval:
    """The interval of mean(a) - mean(b), both scored on the same questions in the same order."""
    if len(a) != len(b):
        raise DataError(f"A paired bootstrap compares the same questions; found {len(a)} and {len(b)} values.")
    return bootstrap(np.subtract(a, b).tolist(), seed, n)
