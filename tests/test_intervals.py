"""Bootstrap intervals: seeded, centred, and honest about pairs."""

import numpy as np
import pytest

from r1_router.errors import DataError
from r1_router.intervals import bootstrap, paired_bootstrap

RNG = np.random.default_rng(0)


def test_the_interval_is_the_normal_ones_where_that_holds() -> None:
    values = RNG.normal(0.6, 0.2, 400).tolist()
    interval = bootstrap(values, seed=1)
    half = 1.96 * np.std(values) / np.sqrt(len(values))
    assert interval.mean == pytest.approx(np.mean(values))
    assert interval.low == pytest.approx(interval.mean - half, abs=0.003)
    assert interval.high == pytest.approx(interval.mean + half, abs=0.003)


def test_a_seed_gives_the_same_interval_and_another_seed_another() -> None:
    values = RNG.random(50).tolist()
    assert bootstrap(values, seed=3) == bootstrap(values, seed=3)
    assert bootstrap(values, seed=3) != bootstrap(values, seed=4)


def test_pairs_see_a_small_gain_that_separate_intervals_hide() -> None:
    hard = RNG.random(300)
    better = hard + 0.02 + RNG.normal(0, 0.01, 300)
    assert paired_bootstrap(better.tolist(), hard.tolist(), seed=0).excludes_zero
    assert bootstrap(better.tolist(), seed=0).low < hard.mean()
    assert not paired_bootstrap(hard.tolist(), hard.tolist(), seed=0).excludes_zero


def test_equal_values_have_no_width() -> None:
    interval = bootstrap([1.0] * 5, seed=0)
    assert (interval.mean, interval.low, interval.high) == (1.0, 1.0, 1.0)


def test_nothing_to_resample_and_unequal_pairs_are_refused() -> None:
    with pytest.raises(DataError, match="at least one"):
        bootstrap([], seed=0)
    with pytest.raises(DataError, match="3 and 2"):
        paired_bootstrap([1, 2, 3], [1, 2], seed=0)
