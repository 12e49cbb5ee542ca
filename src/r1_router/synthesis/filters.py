"""Which trajectories are good enough to learn from; each filter has a name, and what it drops is counted under it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from r1_router.errors import ConfigError
from r1_router.scoring import score, squad_tokens
from r1_router.types import Trajectory

ALTERNATIVES = re.compile(r"[,;/]|\bor\b")
LISTED = 3
"""Parts from which an answer is a list of alternatives, where the gold has fewer."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Keeps a trajectory with an answer, or not."""

    name: str
    keeps: Callable[[Trajectory], bool]
    meaning: str


@dataclass(frozen=True, slots=True)
class Filtered:
    """What passed, in order, and how many each filter dropped; one trajectory counts under the first that drops it."""

    kept: tuple[Trajectory, ...]
    dropped: Counter[str]


def filters_named(names: Sequence[str]) -> list[Filter]:
    """The filters of those names, the published one always first; raises ConfigError listing those there are."""
    for name in names:
        if name not in FILTERS:
            raise ConfigError(f"--filter: none is named {name!r}; there are {', '.join(FILTERS)}.")
    return [FILTERS[name] for name in dict.fromkeys([PUBLISHED, *names])]


def apply(trajectories: Iterable[Trajectory], filters: Sequence[Filter], most: int | None = None) -> Filtered:
    """Keep at most `most` trajectories that pass every filter; those beyond it count as `beyond the limit`."""
    kept: list[Trajectory] = []
    dropped: Counter[str] = Counter()
    for trajectory in trajectories:
        failed = first_failed(trajectory, filters)
        if failed is None and most is not None and len(kept) == most:
            failed = "beyond the limit"
        if failed is None:
            kept.append(trajectory)
        else:
            dropped[failed] += 1
    return Filtered(tuple(kept), dropped)


def first_failed(trajectory: Trajectory, filters: Iterable[Filter]) -> str | None:
    """The name of the first filter that drops the trajectory; None where all keep it."""
    return next((one.name for one in filters if not one.keeps(trajectory)), None)


def answers_rightly(trajectory: Trajectory) -> bool:
    """Recall 1 of the final answer on the gold that the benchmark is scored by: the published filter."""
    return trajectory.answer is not None and score(trajectory.answer.text, trajectory.question.answers).recall == 1


def is_grounded(trajectory: Trajectory) -> bool:
    """Every sub-answer's words stand in the passages retrieved for it."""
    for step in trajectory.steps:
        if step.answer is not None:
            found = {word for passage in step.passages for word in squad_tokens(passage.text)}
            if not set(squad_tokens(step.answer.text)) <= found:
                return False
    return True


def asks_no_question_twice(trajectory: Trajectory) -> bool:
    queries = _queries(trajectory)
    return len(set(queries)) == len(queries)


def decomposes(trajectory: Trajectory) -> bool:
    """No sub-question is the origin question itself."""
    return _words(trajectory.question.text) not in _queries(trajectory)


def commits_itself(trajectory: Trajectory) -> bool:
    """The final answer does not merely list alternatives, of which one happens to be right."""
    golds = trajectory.question.answers
    texts = [str(gold) for gold in (golds if isinstance(golds, list | tuple) else [golds])]
    allowed = max([LISTED - 1, *(len(ALTERNATIVES.split(text.lower())) for text in texts)])
    return trajectory.answer is not None and len(ALTERNATIVES.split(trajectory.answer.text.lower())) <= allowed


def asks_one_source_at_a_time(trajectory: Trajectory) -> bool:
    """What the published row form can hold."""
    return all(step.plan.stops or len(step.plan.sources) == 1 for step in trajectory.steps)


def _needs_a_teacher(trajectory: Trajectory) -> bool:
    """Stands in for the filter that `r1_router.synthesis.needed` makes of a teacher's answers."""
    raise ConfigError(f"--filter: {NEEDED} asks the teacher again, as `r1-router synthesize` does where it is listed.")


def _queries(trajectory: Trajectory) -> list[str]:
    return [_words(step.plan.query) for step in trajectory.steps if not step.plan.stops]


def _words(text: str) -> str:
    return " ".join(squad_tokens(text))


PUBLISHED = "recall"
NEEDED = "needed"
FILTERS = {
    one.name: one
    for one in (
        Filter(PUBLISHED, answers_rightly, "the final answer has recall 1"),
        Filter("single", asks_one_source_at_a_time, "each plan asks one source"),
        Filter("grounded", is_grounded, "each sub-answer stands in its passages"),
        Filter("distinct", asks_no_question_twice, "no sub-question is asked twice"),
        Filter("decomposed", decomposes, "no sub-question is the origin question"),
        Filter("committed", commits_itself, "the final answer is no list of alternatives"),
        Filter(NEEDED, _needs_a_teacher, "without any of its retrievals the answer is not right"),
    )
}
"""Every filter by name, the published one first, the one that costs calls last."""
