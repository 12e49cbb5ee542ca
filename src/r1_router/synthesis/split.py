"""Train and validation rows that share no question, picture or gold evidence; the reference cuts files by their order.

Rows that share something are kept together, and whole groups are drawn for validation till it has its share.
"""

from __future__ import annotations

import random
from collections.abc import Hashable, Iterable, Sequence

from r1_router.scoring import squad_tokens
from r1_router.types import Trajectory

VALIDATION_SHARE = 0.2
SHARED_BY_MOST = 20
"""Evidence in more trajectories than this ties none together: a list of all countries is no question's own."""


def split(
    trajectories: Sequence[Trajectory], seed: int, share: float = VALIDATION_SHARE
) -> tuple[list[int], list[int]]:
    """The indices of train and of validation, each in order."""
    groups = grouped([list(keys(trajectory)) for trajectory in trajectories])
    random.Random(seed).shuffle(groups)
    wanted, validation = round(share * len(trajectories)), set[int]()
    for group in groups:
        if len(validation) + len(group) <= wanted:
            validation.update(group)
    return [n for n in range(len(trajectories)) if n not in validation], sorted(validation)


def keys(trajectory: Trajectory) -> Iterable[Hashable]:
    """What a trajectory must not share across the split: its question's words, its picture, its evidence."""
    yield "question", *squad_tokens(trajectory.question.text)
    if trajectory.question.image:
        yield "image", trajectory.question.image
    for step in trajectory.steps:
        if step.answer is not None:
            wanted = set(squad_tokens(step.answer.text))
            holding = (passage for passage in step.passages if wanted <= set(squad_tokens(passage.text)))
            for passage in list(holding)[:1]:
                yield "passage", passage.source.name, passage.id or passage.text


def grouped(keyed: Sequence[Sequence[Hashable]]) -> list[list[int]]:
    """Indices in groups that share no key with one another; a key that more than SHARED_BY_MOST have is passed over."""
    holders: dict[Hashable, list[int]] = {}
    for index, own in enumerate(keyed):
        for key in own:
            holders.setdefault(key, []).append(index)
    parent = list(range(len(keyed)))

    def root(index: int) -> int:
        while parent[index] != index:
            parent[index] = parent[parent[index]]
            index = parent[index]
        return index

    for indices in holders.values():
        if len(indices) <= SHARED_BY_MOST:
            for index in indices[1:]:
                parent[root(index)] = root(indices[0])
    groups: dict[int, list[int]] = {}
    for index in range(len(keyed)):
        groups.setdefault(root(index), []).append(index)
    return list(groups.values())
