"""Which prompts are sampled together: a plan made before the first update, the same for the same seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import count, groupby

from r1_router.training.grpo.prompts import StepPrompt


def plan(
    prompts: Sequence[StepPrompt], size: int, batches: int, *, seed: int, keep_together: bool = False
) -> list[list[int]]:
    """The prompts' indices in `batches` batches of `size`, each all with or all without images.

    Every pass over the data is shuffled anew, by steps, or by whole trajectories to keep their steps together; what a
    pass leaves over opens the next one's first batch.
    """
    made: list[list[int]] = []
    waiting: dict[bool, list[int]] = {False: [], True: []}
    for number in count():
        for index in _shuffled(prompts, random.Random(f"{seed}/{number}"), keep_together):
            queue = waiting[bool(prompts[index].images)]
            queue.append(index)
            if len(queue) == size:
                made.append(queue.copy())
                queue.clear()
            if len(made) == batches:
                return made
    raise AssertionError("the passes never end")


def repeated(batches: Sequence[Sequence[int]], group: int, uses: int) -> list[int]:
    """The indices as TRL's loader takes them: each of a batch `group` times in a row, each batch `uses` times over."""
    return [index for batch in batches for _ in range(uses) for index in batch for _ in range(group)]


def _shuffled(prompts: Sequence[StepPrompt], generator: random.Random, keep_together: bool) -> list[int]:
    indices = range(len(prompts))
    if not keep_together:
        return generator.sample(indices, len(indices))
    rows = [list(own) for _, own in groupby(indices, key=lambda index: prompts[index].row)]
    generator.shuffle(rows)
    return [index for row in rows for index in row]
