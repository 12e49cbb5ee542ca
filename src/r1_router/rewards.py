"""Step rewards: what sampled replies are worth against the targets of their training steps.

    ret           0.5 * cosine(sub-question, gold) + 0.5 * [one retriever is named, and it is the gold's first]
    ans, final    r, the answer's recall, where the only gold is long; else 1 where r is 1, and 0 where it is not

A reply that breaks the grammar, or a target that cannot be used, is worth 0 and says why. That is the reference's
reward, quirks included (`reward_rules`); each field of `RewardOptions` changes one thing about it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from r1_router.errors import DataError, EngineError
from r1_router.reward_parts import (
    FailureKind,
    Reward,
    Routing,
    answer_reward,
    read_routing,
    refused_routing,
    routing_reward,
)
from r1_router.reward_rules import ANSWER_STEPS, REFERENCE, ROUTE_STEP, RewardOptions
from r1_router.types import PUBLISHED_SOURCES, Encoder, Query, Source


@dataclass(frozen=True, slots=True)
class Sample:
    """One reply to a step's prompt and what it is held to, as the step rows have it.

    `target` is `{"query": str, "retriever": [name, ..]}` for a routing step; for an answer a text, or a list of them.
    """

    response: str
    target: Any
    step_type: str


@dataclass(frozen=True, slots=True)
class RewardCounts:
    """A batch of rewards summed up: how many, the means of total and parts, and how many failed for what.

    A part's mean is over the rewards that have it: `query` over routing steps, `answer` over answering ones.
    """

    rewards: int
    means: Mapping[str, float]
    failures: Mapping[FailureKind, int]

    def to_log(self) -> dict[str, float]:
        """Flat, as a training log keeps it: `reward/total`, `reward/query`, .. and `reward/failed_reply`, .."""
        means = {f"reward/{name}": mean for name, mean in self.means.items()}
        return means | {f"reward/failed_{kind}": float(count) for kind, count in self.failures.items()}


def step_reward(
    response: str,
    target: Any,
    *,
    step_type: str,
    encoder: Encoder,
    sources: Sequence[Source] = PUBLISHED_SOURCES,
    options: RewardOptions = REFERENCE,
) -> Reward:
    """The reward of one reply, as `step_rewards` gives it."""
    return step_rewards([Sample(response, target, step_type)], encoder=encoder, sources=sources, options=options)[0]


def step_rewards(
    batch: Sequence[Sample],
    *,
    encoder: Encoder,
    sources: Sequence[Source] = PUBLISHED_SOURCES,
    options: RewardOptions = REFERENCE,
) -> list[Reward]:
    """The reward of each sample, in order; the encoder is called once, with each text of the batch once.

    Raises DataError for an unknown step type, before anything is encoded.
    """
    read = [_read(sample, sources, options) for sample in batch]
    cosines = iter(_cosines([one for one in read if isinstance(one, Routing)], encoder))
    return [routing_reward(one, next(cosines), options) if isinstance(one, Routing) else one for one in read]


def count_rewards(rewards: Sequence[Reward]) -> RewardCounts:
    """The counts and means of a batch; where there are no rewards there are no means."""
    values: dict[str, list[float]] = {}
    for reward in rewards:
        for name, value in {"total": reward.total, **reward.parts}.items():
            values.setdefault(name, []).append(value)
    means = {name: sum(found) / len(found) for name, found in values.items()}
    failed = Counter(reward.failure.kind for reward in rewards if reward.failure is not None)
    return RewardCounts(len(rewards), means, {kind: failed[kind] for kind in FailureKind})


def _read(sample: Sample, sources: Sequence[Source], options: RewardOptions) -> Routing | Reward:
    """A routing reply as far as it goes without vectors, anything else as its reward."""
    if sample.step_type in ANSWER_STEPS:
        return answer_reward(sample.response, sample.target, options)
    if sample.step_type == ROUTE_STEP:
        routing = read_routing(sample.response, sample.target, sources, options)
        return routing if isinstance(routing, Routing) else refused_routing(routing, sources, options)
    known = ", ".join((ROUTE_STEP, *ANSWER_STEPS))
    raise DataError(f"A step's type must be one of {known}, found {sample.step_type!r}; mend the step rows.")


def _cosines(routings: Sequence[Routing], encoder: Encoder) -> list[float]:
    """The similarity of each reply's sub-question to the gold one; the encoder's rows are of unit length."""
    texts = dict.fromkeys(text for one in routings for text in (one.query, one.gold_query))
    if not texts:
        return []
    rows = np.asarray(encoder.encode([Query(_encodable(text)) for text in texts]), dtype=np.float64)
    if len(rows) != len(texts):
        raise EngineError(f"The encoder took {len(texts)} texts and returned {len(rows)} rows; mend the encoder.")
    row_of = dict(zip(texts, rows, strict=True))
    with np.errstate(invalid="ignore"):  # a row that is no number is told as the failure of its own sample
        return [float(row_of[one.query] @ row_of[one.gold_query]) for one in routings]


def _encodable(text: str) -> str:
    """The text with `?` for lone surrogates, which a server may send and no tokenizer takes."""
    return text.encode("utf-8", "replace").decode("utf-8")
