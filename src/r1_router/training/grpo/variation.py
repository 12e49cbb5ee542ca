"""Step prompts under other names: what the start has learnt by heart is asked anew, so that its samples differ."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from r1_router.training.grpo.prompts import StepPrompt
from r1_router.training.swaps import Swapper


def under_other_names(prompts: Sequence[StepPrompt], swapper: Swapper, share: float, seed: int) -> list[StepPrompt]:
    """A `share` of the prompts with their names swapped, in the chat and in the target alike."""
    rng = random.Random(seed)
    return [_swapped(prompt, swapper, rng) if rng.random() < share else prompt for prompt in prompts]


def _swapped(prompt: StepPrompt, swapper: Swapper, rng: random.Random) -> StepPrompt:
    """A prompt with pictures stays as it is, for what they show keeps its name."""
    if prompt.images:
        return prompt
    row = swapper.swapped({"messages": prompt.messages, "completion": prompt.target}, rng)
    return replace(prompt, messages=tuple(row["messages"]), target=row["completion"])
