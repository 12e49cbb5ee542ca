"""The step reward as verl and EasyR1 ask for it.

The similarity is that of the encoder that the settings name, BAAI/bge-m3 where they name none, as in the reference;
it runs on the CPU, for a reward process has no GPU. Rewards by two encoders are two scales.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from r1_router.batcher import Batcher
from r1_router.reward_parts import FailureKind, Reward
from r1_router.reward_rules import ANSWER_PARTS, ANSWER_STEPS, REFERENCE, ROUTE_PARTS, ROUTE_STEP, RewardOptions
from r1_router.rewards import Sample, step_rewards
from r1_router.training.grpo.live import LIVE, Fate
from r1_router.types import PUBLISHED_SOURCES, Encoder, Source

ENCODER = "BAAI/bge-m3"
RETRIEVERS = tuple(source.name for source in PUBLISHED_SOURCES)
GATHERED = 256
"""Samples scored in one call at most."""

Scores = dict[str, float]


@dataclass(frozen=True, slots=True)
class ScoreSettings:
    """What a trainer's config may say of the reward: an encoder's folder or hub name, the retrievers, options."""

    encoder: str = ENCODER
    retrievers: tuple[str, ...] = RETRIEVERS
    options: RewardOptions = REFERENCE

    @staticmethod
    def read(
        encoder: str = ENCODER, retrievers: Sequence[str] = RETRIEVERS, options: Mapping[str, Any] | None = None
    ) -> ScoreSettings:
        """The settings from a config's plain values; `options` are RewardOptions' keys."""
        return ScoreSettings(encoder, tuple(retrievers), RewardOptions(**(options or {})))


async def compute_score(
    data_source: str, solution_str: str, ground_truth: str, extra_info: Mapping[str, Any], **settings: Any
) -> Scores:
    """One reply's score and its parts, as verl's reward workers ask for them; every reply has the same keys.

    A worker asks for many at once: they are gathered, so that the encoder is given lists. Of a reply of the live agent
    loop the fate of its walk is among the parts: 1 for the one that it had.
    """
    sample = Sample(solution_str, json.loads(ground_truth), extra_info["step_type"])
    parts = dict.fromkeys((*ROUTE_PARTS, *ANSWER_PARTS), 0.0)
    fates = {f"{LIVE}_{fate}": float(fate == extra_info[LIVE]) for fate in Fate} if LIVE in extra_info else {}
    return parts | fates | await _batcher(ScoreSettings.read(**settings))(sample)


def score_steps(replies: Sequence[str], targets: Sequence[str], settings: ScoreSettings) -> list[Scores]:
    """The score and the parts of each reply, in order, for a trainer that hands over nothing but JSON targets.

    A target tells what kind of step it is: a route is an object, an answer is a text or a list of them.
    """
    return _score(
        [_sample(reply, json.loads(target)) for reply, target in zip(replies, targets, strict=True)], settings
    )


def _sample(reply: str, target: Any) -> Sample:
    return Sample(reply, target, ROUTE_STEP if isinstance(target, dict) else ANSWER_STEPS[0])


@cache
def _batcher(settings: ScoreSettings) -> Batcher[Sample, Scores]:
    return Batcher(lambda batch: _score(batch, settings), GATHERED)


def _score(batch: Sequence[Sample], settings: ScoreSettings) -> list[Scores]:
    sources = [Source(name, "", "") for name in settings.retrievers]
    rewards = step_rewards(batch, encoder=sentence_encoder(settings.encoder), sources=sources, options=settings.options)
    return [_scores(reward) for reward in rewards]


def _scores(reward: Reward) -> Scores:
    kind = reward.failure and reward.failure.kind
    failures = {f"failed_{one}": float(one is kind) for one in FailureKind}
    return {"score": reward.total, **reward.parts, **failures}


@cache
def sentence_encoder(name: str) -> Encoder:
    """The encoder of a folder or hub name, on the CPU, loaded once a process."""
    from r1_router.retrieval.encoders import SentenceEncoder

    return SentenceEncoder(name, device="cpu")
