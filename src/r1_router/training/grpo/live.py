"""Prompts of the policy's own making: it walks the routed loop to a step's place, retrieving live, and is asked there.

Teacher-forced, a step's prompt holds the teacher's sub-questions, evidence and answers, which the policy would not have
come to. Live, each group's prompt is where the policy's own walk from the question leads; the target stays the
teacher's. A walk that does not come to the place leaves the group the teacher's prompt, and the reason is counted.
"""

from __future__ import annotations

import asyncio
import json
import logging
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import groupby
from pathlib import Path
from typing import Any

from r1_router.errors import ConfigError, KnowledgeBaseDown, PromptTooLong
from r1_router.llm.content import text_only
from r1_router.methods.blocks import Settings, Work, answer, history, plan, searched, shown
from r1_router.prompts import answer_messages, final_messages, route_messages
from r1_router.prompts.messages import origin
from r1_router.reward_rules import ROUTE_STEP
from r1_router.training.grpo.prompts import FINAL_STEP, StepPrompt, read_prompts
from r1_router.training.grpo.rounds import Answers, Rounds
from r1_router.types import LLM, Encoder, Message, Passage, Query, Question, Retriever, Sampling, Source, Step

SAME_QUESTION = 0.8
"""The least cosine at which the policy's sub-question passes for the teacher's, whose answer is the target."""
_log = logging.getLogger(__name__)


class Fate(StrEnum):
    """What became of a walk; all but the first leave the teacher's prompt."""

    OWN = "own"
    STOPPED = "stopped"
    OTHER_QUESTION = "other_question"
    UNANSWERED = "unanswered"
    TOO_LONG = "too_long"


@dataclass(frozen=True, slots=True)
class Loop:
    """The routed loop as the config has it, its bases, and the questions that the step rows come of."""

    settings: Settings
    retrievers: Mapping[Source, Retriever]
    questions: Sequence[Question]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a teacher's prompt stands: the `number`-th step of its kind on the way from the question, from 0.

    `asked` is the teacher's sub-question there.
    """

    prompt: StepPrompt
    question: Question
    number: int
    asked: str


@dataclass(frozen=True, slots=True)
class Arrival:
    """The chat that the policy is asked at a place, and its own sub-question where it is to be answered."""

    messages: Sequence[Message]
    asked: str | None = None


def places(data: Path, prompts: Sequence[StepPrompt], loop: Loop) -> dict[str, Place]:
    """The place of each prompt by its `key`; raises ConfigError for a row whose question is not among the loop's."""
    known = {_seen(origin(_read(one, loop.settings), ()), one.image): one for one in loop.questions}
    steps = sorted(read_prompts(data, step_types=(), sees_images=True), key=lambda step: (step.row, step.step))
    found: dict[str, Place] = {}
    for row, own in groupby(steps, key=lambda step: step.row):
        first, *rest = own
        question = known.get(_seen(_problem(first), first.images[0] if first.images else None))
        if question is None:
            raise ConfigError(f"{data}, row {row}: none of the `questions` is asked as its first step is.")
        found |= {place.prompt.id: place for place in on_the_way(question, (first, *rest))}
    return {key(prompt.messages): replace(found[prompt.id], prompt=prompt) for prompt in prompts}


def on_the_way(question: Question, steps: Sequence[StepPrompt]) -> Iterator[Place]:
    """The places of one row's steps, which come in their order."""
    asked, counts = "", Counter[str]()
    for step in steps:
        if step.step_type == ROUTE_STEP:
            asked = str(json.loads(step.target)["query"])
        yield Place(step, question, counts[step.step_type], asked)
        counts[step.step_type] += 1


def key(messages: Sequence[Message]) -> str:
    """A chat's name."""
    return json.dumps(list(messages), sort_keys=True)


@dataclass(frozen=True, slots=True)
class _Guarded:
    """A base whose every failure is that of one that is down, so that it ends a walk and not the run."""

    source: Source
    base: Retriever

    async def search(self, query: Query, k: int) -> list[Passage]:
        try:
            return await self.base.search(query, k)
        except KnowledgeBaseDown:
            raise
        except Exception as error:  # whatever the base's own engine raises
            _log.warning("%s failed, a walk ends: %s: %s", self.source.name, type(error).__name__, error)
            raise KnowledgeBaseDown(str(error)) from error


async def walk(place: Place, llm: LLM, loop: Loop) -> Arrival | Fate:
    """The policy's own way to the place: only as many steps as lie before it.

    Raises PromptTooLong for a prompt on the way that no model's context holds.
    """
    bases = {source: _Guarded(source, base) for source, base in loop.retrievers.items()}
    work = Work(place.question, llm, bases, loop.settings)
    prompts, kind, steps = loop.settings.prompts, place.prompt.step_type, list[Step]()
    while True:
        if (kind, place.number) == (ROUTE_STEP, len(steps)):
            return Arrival(route_messages(prompts, work.read, history(steps), tuple(loop.retrievers)))
        if len(steps) == loop.settings.max_steps or (chosen := await plan(work, steps)).stops:
            break
        step = await searched(work, chosen)
        if work.usage.unanswered:
            return Fate.UNANSWERED
        if kind not in (ROUTE_STEP, FINAL_STEP) and place.number == len(steps):
            return Arrival(answer_messages(prompts, Query(chosen.query), shown(work, step.passages)), chosen.query)
        steps.append(replace(step, answer=await answer(work, chosen, step.passages)))
    return Arrival(final_messages(prompts, work.read, history(steps))) if kind == FINAL_STEP else Fate.STOPPED


@dataclass(frozen=True, slots=True)
class Walks:
    """The walks of a run: its loop, the places of its prompts by their chats' keys, and what fits a prompt in.

    `fit` leaves out passages, and gives None where that is not enough.
    """

    loop: Loop
    places: Mapping[str, Place]
    encoder: Encoder
    fit: Callable[[StepPrompt], StepPrompt | None]

    def prompts(
        self, chats: Sequence[str], answers: Answers, sampling: Sampling
    ) -> tuple[dict[str, Sequence[Message]], Counter[Fate]]:
        """For each teacher's chat, by its key, the policy's own where it has one; and how many walks ended how."""
        loop = replace(self.loop, settings=replace(self.loop.settings, sampling=sampling, on_event=None))
        own: dict[str, Sequence[Message]] = {}
        fates: Counter[Fate] = Counter()
        for chat, arrival in zip(chats, asyncio.run(self._walk_all(chats, answers, loop)), strict=True):
            arrived = self._judged(arrival, self.places[chat])
            if not isinstance(arrived, Fate):
                own[chat] = arrived
            fates[arrived if isinstance(arrived, Fate) else Fate.OWN] += 1
        return own, fates

    async def _walk_all(self, chats: Sequence[str], answers: Answers, loop: Loop) -> list[Arrival | Fate]:
        rounds = Rounds(answers, len(chats))

        async def one(place: Place) -> Arrival | Fate:
            try:
                return await walk(place, rounds, loop)
            except PromptTooLong:
                return Fate.TOO_LONG
            finally:
                rounds.leave()

        return await asyncio.gather(*(one(self.places[chat]) for chat in chats))

    def _judged(self, arrival: Arrival | Fate, place: Place) -> Sequence[Message] | Fate:
        if isinstance(arrival, Fate):
            return arrival
        if arrival.asked is not None and self._cosine(arrival.asked, place.asked) < SAME_QUESTION:
            return Fate.OTHER_QUESTION
        own = self.fit(replace(place.prompt, messages=tuple(text_only(arrival.messages))))
        return Fate.TOO_LONG if own is None else own.messages

    def _cosine(self, one: str, other: str) -> float:
        first, second = self.encoder.encode([Query(one), Query(other)])
        return float(first @ second)


class LiveRollouts:
    """Called by TRL with a batch's prompts: walks first, then the groups' replies at the places come to."""

    def __init__(self, rollouts: Any, walks: Walks) -> None:
        self._rollouts = rollouts
        self._walks = walks

    def __call__(self, prompts: Sequence[Sequence[Message]], trainer: Any) -> dict[str, Any]:
        """As `Rollouts`; the shares of walks by their fate are logged as `live/..`."""
        self._rollouts.follow(trainer)
        config = trainer.step_config
        seed = zlib.crc32(f"{config.seed}/{trainer.state.global_step}".encode())
        sampling = Sampling(config.temperature, config.top_k, config.max_tokens, seed)
        chats = list(dict.fromkeys(map(key, prompts)))
        own, fates = self._walks.prompts(chats, self._rollouts.answers(config.rollout_batch), sampling)
        for fate in Fate:
            trainer._log_metric(f"live/{fate.value}", fates[fate] / len(chats))
        return self._rollouts([own.get(key(messages), messages) for messages in prompts], trainer)


def _read(question: Question, settings: Settings) -> Question:
    """The question as the loop reads it."""
    return replace(question, text=question.text.lower()) if settings.lower_case else question


def _seen(text: str, image: str | None) -> tuple[str, str | None]:
    """What tells a question from others: its text and its picture's file name."""
    return text.strip(), image and Path(image).name


def _problem(step: StepPrompt) -> str:
    """The text asked, without its picture."""
    return str(text_only(step.messages)[-1]["content"])
