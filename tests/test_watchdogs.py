"""The watchdogs of a training run, on rows as its log has them."""

from __future__ import annotations

from typing import Any

import pytest

from r1_router.training.grpo.watchdogs import (
    ENTROPY,
    LENGTH,
    MALFORMED,
    REWARD,
    SKIPPED,
    SPECIAL,
    SPREADLESS,
    Alarm,
    Limits,
    alarms,
    new_alarms,
)

LIMITS = Limits(window=3, skipped=2)
HEALTHY = {REWARD: 0.6, LENGTH: 50.0, ENTROPY: 0.2, SPREADLESS: 0.5, MALFORMED: 0.05, SPECIAL: 0.0, SKIPPED: 0.0}


def rows(count: int, **changed: float) -> list[dict[str, float]]:
    return [HEALTHY | changed for _ in range(count)]


def names(found: list[Alarm]) -> dict[str, bool]:
    return {alarm.name: alarm.stops for alarm in found}


def test_a_healthy_run_is_silent() -> None:
    assert all(alarms(rows(count), LIMITS) == [] for count in range(10))


@pytest.mark.parametrize(
    "measure, value, name, stops",
    [
        (REWARD, 0.29, "collapse", True),
        (SPREADLESS, 0.95, "spread", False),
        (MALFORMED, 0.4, "form", False),
        (SPECIAL, 0.01, "special", False),
        (LENGTH, 110.0, "length", False),
        (LENGTH, 20.0, "length", False),
        (ENTROPY, 1.2, "entropy", False),
        (ENTROPY, 0.03, "entropy", False),
    ],
)
def test_each_alarm_goes_off_at_its_limit_and_names_a_knob(measure: str, value: float, name: str, stops: bool) -> None:
    found = alarms([*rows(3), *rows(3, **{measure: value})], LIMITS)
    assert names(found) == {name: stops}
    assert any(knob in found[0].message for knob in ("learning_rate", "temperature", "beta", "engine", "adapter"))


def test_one_bad_update_is_no_alarm() -> None:
    assert alarms([*rows(5), *rows(1, **{REWARD: 0.1, SPREADLESS: 1.0, LENGTH: 90.0})], LIMITS) == []


def test_a_limit_of_zero_is_off() -> None:
    off = Limits(window=3, spreadless=0, collapse=0, length=0, entropy=0, malformed=0)
    bad: dict[str, Any] = {REWARD: 0.0, SPREADLESS: 1.0, LENGTH: 1.0, ENTROPY: 9.0, MALFORMED: 1.0}
    assert alarms([*rows(3), *rows(3, **bad)], off) == []


def test_skipped_updates_are_told_and_too_many_stop_the_run() -> None:
    assert names(alarms(rows(1, **{SKIPPED: 1.0}), LIMITS)) == {"gradients": False}
    assert alarms([*rows(1, **{SKIPPED: 1.0}), *rows(1)], LIMITS) == []
    assert names(alarms(rows(3, **{SKIPPED: 1.0}), LIMITS)) == {"gradients": True}


def test_a_lasting_state_is_told_once() -> None:
    bad = [*rows(3), *rows(3, **{MALFORMED: 0.5})]
    assert names(new_alarms(bad[:-1], LIMITS)) == {"form": False}
    assert new_alarms(bad, LIMITS) == []


def test_rows_that_lack_a_measure_are_passed_over() -> None:
    assert alarms([{REWARD: 0.5}] * 9, LIMITS) == []
