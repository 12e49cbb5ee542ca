"""Signs that a run goes wrong, read off its log: pure functions of the rows so far.

A row is one update's measures by name. Most alarms are lines for a person to judge; those that stop the run are of
states that nothing recovers from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

Row = Mapping[str, float]
SKIPPED, SPREADLESS = "watch/skipped", "frac_reward_zero_std"
REWARD, LENGTH, ENTROPY = "reward", "completions/mean_length", "entropy"
MALFORMED, SPECIAL = "watch/malformed", "watch/special_tokens"
"""The measures watched: TRL's names, and ours under `watch/`."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Where alarms go off; means are over the last `window` updates, first ones over as many at the start.

    A limit of 0 is off, except `skipped`, which always holds.
    """

    window: int = 10
    spreadless: float = 0.9
    """Share of groups whose replies all earn the same, from which nothing is learnt."""
    skipped: int = 10
    """Updates left out for gradients that are no numbers; with more of them the run stops."""
    collapse: float = 0.5
    """The run stops where the mean reward falls below this share of the first ones."""
    length: float = 2.0
    """How many times longer, or shorter, replies may become."""
    entropy: float = 5.0
    """How many times more, or less, entropy a token's distribution may have."""
    malformed: float = 0.3
    """Share of replies of broken form."""
    special: float = 0.0
    """Share of replies with a special token before their end; any at all is told."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """What is wrong and the knob that mends it; one that `stops` ends the run."""

    name: str
    message: str
    stops: bool = False


def alarms(rows: Sequence[Row], limits: Limits) -> list[Alarm]:
    """The alarms of the last row, in view of all before it."""
    if not rows:
        return []
    return [*_skipped(rows, limits), *_shares(rows, limits), *_drifts(rows, limits), *_collapse(rows, limits)]


def new_alarms(rows: Sequence[Row], limits: Limits) -> list[Alarm]:
    """Those that the row before the last did not have already, so that a lasting state is told once."""
    before = {alarm.name for alarm in alarms(rows[:-1], limits)}
    return [alarm for alarm in alarms(rows, limits) if alarm.stops or alarm.name not in before]


def _skipped(rows: Sequence[Row], limits: Limits) -> Iterator[Alarm]:
    count = round(sum(row.get(SKIPPED, 0.0) for row in rows))
    if not count:
        return
    stops = count > limits.skipped
    if stops or rows[-1].get(SKIPPED):
        message = f"{count} updates left out for gradients that are no numbers (limits.skipped {limits.skipped}); "
        yield Alarm("gradients", message + "lower learning_rate, or set dtype: float32", stops)


def _shares(rows: Sequence[Row], limits: Limits) -> Iterator[Alarm]:
    """Shares that are high on the mean of the last window."""
    spreadless, malformed, special = (_recent(rows, name, limits.window) for name in (SPREADLESS, MALFORMED, SPECIAL))
    if limits.spreadless and spreadless is not None and spreadless > limits.spreadless:
        message = f"{spreadless:.0%} of the groups have no spread of rewards, so nothing is learnt from them; "
        yield Alarm("spread", message + "raise temperature or group, or choose step_types")
    if limits.malformed and malformed is not None and malformed > limits.malformed:
        message = f"{malformed:.0%} of the replies break their form; "
        yield Alarm("form", message + "start from an adapter of `train sft`, lower temperature, or raise max_tokens")
    if special is not None and special > limits.special:
        yield Alarm(
            "special", f"{special:.1%} of the replies hold special tokens before their end; set engine: decoder"
        )


def _drifts(rows: Sequence[Row], limits: Limits) -> Iterator[Alarm]:
    """Measures that are many times what they were, or a small part of it."""
    knobs = {LENGTH: ("length", limits.length, "lower learning_rate"), ENTROPY: ("entropy", limits.entropy, "set beta")}
    for measure, (name, times, knob) in knobs.items():
        first, now = _first(rows, measure, limits.window), _recent(rows, measure, limits.window)
        if times and first and now is not None and not first / times <= now <= first * times:
            yield Alarm(name, f"{measure} went from {first:.3g} to {now:.3g}; {knob}, or raise limits.{name}")


def _collapse(rows: Sequence[Row], limits: Limits) -> Iterator[Alarm]:
    first, now = _first(rows, REWARD, limits.window), _recent(rows, REWARD, limits.window)
    if limits.collapse and first and now is not None and first > 0 and now < limits.collapse * first:
        message = f"the mean reward fell from {first:.3f} to {now:.3f}; lower learning_rate or set beta above 0, "
        yield Alarm("collapse", message + "or set limits.collapse to 0", stops=True)


def _first(rows: Sequence[Row], name: str, window: int) -> float | None:
    """The mean of the first window, once there is a second one to hold against it."""
    values = [row[name] for row in rows if name in row]
    return _mean(values[:window]) if len(values) >= 2 * window else None


def _recent(rows: Sequence[Row], name: str, window: int) -> float | None:
    values = [row[name] for row in rows if name in row]
    return _mean(values[-window:]) if len(values) >= window else None


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
