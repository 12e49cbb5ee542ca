"""A small real encoder and well-formed replies, for the tests of the step reward."""

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from r1_router.replies import format_answer, format_plan
from r1_router.reward_parts import Reward
from r1_router.reward_rules import RewardOptions
from r1_router.rewards import step_reward
from r1_router.types import NONE, TEXT, Query

LONG = "the battle of the white mountain near prague"
ROUTE = {"query": "who?", "retriever": [TEXT.name]}
STOP = {"query": NONE, "retriever": [NONE]}


class HashEncoder:
    """The golden data's stand-in encoder: a word adds 1 to one of 64 places; keeps what it was asked."""

    dim = 64

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    def encode(self, items: Sequence[Query]) -> NDArray[Any]:
        self.calls.append([item.text for item in items])
        rows = np.zeros((len(items), self.dim))
        for row, item in zip(rows, items, strict=True):
            for word in item.text.split():
                row[int(hashlib.sha256(word.encode()).hexdigest()[:8], 16) % self.dim] += 1
        return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)


def route(query: str, names: str, target: Any = ROUTE, **options: Any) -> Reward:
    """The reward of a well-formed routing reply."""
    return reward(format_plan("t", query, names), target, **options)


def answer(text: str, gold: Any, **options: Any) -> Reward:
    """The reward of a well-formed answer."""
    return reward(format_answer("t", text), gold, "ans", **options)


def reward(response: str, target: Any, step_type: str = "ret", **options: Any) -> Reward:
    return step_reward(response, target, step_type=step_type, encoder=HashEncoder(), options=RewardOptions(**options))
