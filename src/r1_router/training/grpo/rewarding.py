"""Sampled replies to step rewards, as TRL asks for them; every part is logged."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from r1_router.reward_parts import FailureKind, Reward
from r1_router.reward_rules import RewardOptions
from r1_router.rewards import Sample, count_rewards, step_rewards
from r1_router.training.grpo.watchdogs import MALFORMED, SPECIAL
from r1_router.types import Encoder, Source

DIGITS = 5


class StepRewards:
    """The reward of each reply against its row's target; the batch's texts are encoded together.

    With `parts` only these are paid. `special` are the token ids that a reply may only end with.
    """

    def __init__(
        self,
        encoder: Encoder,
        sources: Sequence[Source],
        options: RewardOptions,
        *,
        parts: Sequence[str] = (),
        special: Iterable[int] = (),
    ) -> None:
        self._encoder, self._sources, self._options = encoder, tuple(sources), options
        self._parts, self._special = tuple(parts), frozenset(special)

    def __call__(
        self,
        *,
        completions: Sequence[Any],
        completion_ids: Sequence[Sequence[int]],
        target: Sequence[str],
        step_type: Sequence[str],
        log_metric: Callable[[str, float], None],
        **_: Any,
    ) -> list[float]:
        """One reward a reply, in order (TRL's protocol)."""
        texts = [completion[0]["content"] for completion in completions]
        samples = [
            Sample(text, json.loads(answer), kind) for text, answer, kind in zip(texts, target, step_type, strict=True)
        ]
        rewards = step_rewards(samples, encoder=self._encoder, sources=self._sources, options=self._options)
        counts = count_rewards(rewards)
        for name, value in counts.to_log().items():
            log_metric(name, value)
        log_metric(MALFORMED, counts.failures[FailureKind.REPLY] / len(rewards))
        spoken = [not self._special.isdisjoint(ids[:-1]) for ids in completion_ids]
        log_metric(SPECIAL, sum(spoken) / len(spoken))
        return [self._paid(reward) for reward in rewards]

    def _paid(self, reward: Reward) -> float:
        """What counts of a reward; rounded, for the noise of a cosine is no spread to learn from."""
        paid = sum(reward.parts.get(name, 0.0) for name in self._parts) if self._parts else reward.total
        return round(paid, DIGITS)
