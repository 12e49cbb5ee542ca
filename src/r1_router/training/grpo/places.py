"""Where the prompts of step rows stand: at which step of which question's way through the routed loop."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from r1_router.errors import ConfigError
from r1_router.llm.content import text_only
from r1_router.methods.work import Settings
from r1_router.prompts.messages import origin
from r1_router.reward_rules import ROUTE_STEP
from r1_router.training.grpo.prompts import StepPrompt, read_prompts
from r1_router.types import Message, Question, Retriever, Source


@dataclass(frozen=True, slots=True)
class Loop:
    """The routed loop as the config has it, its bases, and the questions that the step rows come of."""

    settings: Settings
    retrievers: Mapping[Source, Retriever]
    questions: Sequence[Question]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a teacher's prompt stands: the `number`-th step of its `kind` on the way from the question, from 0.

    `asked` is the teacher's sub-question there.
    """

    question: Question
    kind: str
    number: int
    asked: str


def places(data: Path, prompts: Sequence[StepPrompt], loop: Loop) -> dict[str, Place]:
    """The place of each prompt by its `key`; raises ConfigError for a row whose question is not among the loop's."""
    known = {_seen(origin(_read(one, loop.settings), ()), one.image): one for one in loop.questions}

    def question_of(first: StepPrompt) -> Question:
        question = known.get(_seen(problem(first), first.images[0] if first.images else None))
        if question is None:
            raise ConfigError(f"{data}, row {first.row}: none of the `questions` is asked as its first step is.")
        return question

    found = places_by_id(data, question_of)
    return {key(prompt.messages): found[prompt.id] for prompt in prompts}


def places_by_id(data: Path, question_of: Callable[[StepPrompt], Question]) -> dict[str, Place]:
    """The place of every step of the rows by its id; `question_of` is given the first step of a row."""
    steps = sorted(read_prompts(data, step_types=(), sees_images=True), key=lambda step: (step.row, step.step))
    rows = [list(own) for _, own in groupby(steps, key=lambda step: step.row)]
    return {id_: place for row in rows for id_, place in _on_the_way(question_of(row[0]), row)}


def _on_the_way(question: Question, steps: Sequence[StepPrompt]) -> Iterator[tuple[str, Place]]:
    """The ids and places of one row's steps, which come in their order."""
    asked, counts = "", Counter[str]()
    for step in steps:
        if step.step_type == ROUTE_STEP:
            asked = str(json.loads(step.target)["query"])
        yield step.id, Place(question, step.step_type, counts[step.step_type], asked)
        counts[step.step_type] += 1


def key(messages: Sequence[Message]) -> str:
    """A chat's name."""
    return json.dumps(list(messages), sort_keys=True)


def _read(question: Question, settings: Settings) -> Question:
    """The question as the loop reads it."""
    return replace(question, text=question.text.lower()) if settings.lower_case else question


def _seen(text: str, image: str | None) -> tuple[str, str | None]:
    """What tells a question from others: its text and its picture's file name."""
    return text.strip(), image and Path(image).name


def problem(step: StepPrompt) -> str:
    """The text asked, without its picture."""
    return str(text_only(step.messages)[-1]["content"])
