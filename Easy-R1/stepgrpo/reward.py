"""The step reward as EasyR1 asks for it, a batch at a time; every part is logged.

`worker.reward.reward_function_kwargs` are the fields of `r1_router.training.verl_reward.ScoreSettings`.
"""

from __future__ import annotations

from typing import Any

from r1_router.training.verl_reward import ScoreSettings, score_steps

REWARD_NAME = "step"
REWARD_TYPE = "batch"


def compute_score(reward_inputs: list[dict[str, Any]], **settings: Any) -> list[dict[str, float]]:
    """One dictionary a reply, in order: `overall`, and the parts that its kind of step has."""
    replies = [one["response"] for one in reward_inputs]
    targets = [one["ground_truth"] for one in reward_inputs]
    scores = score_steps(replies, targets, ScoreSettings.read(**settings))
    return [{"overall": score.pop("score"), **score} for score in scores]
