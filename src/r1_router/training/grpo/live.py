"""Prompts of the policy's own making: it walks the routed loop to a step's place, retrieving live, and is asked there.

Teacher-forced, a step's prompt holds the teacher's sub-questions, evidence and answers, which the policy would not have
come to. Live, each group's prompt is where the policy's own walk from the question leads; the target stays the
teacher's. A walk that does not come to the place leaves the group the teacher's prompt, and the reason is counted.
"""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from r1_router.errors import KnowledgeBaseDown, PromptTooLong
from r1_router.llm.content import text_only
from r1_router.methods.blocks import answer, history, plan, searched, shown
from r1_router.methods.work import Work
from r1_router.prompts import answer_messages, final_messages, route_messages
from r1_router.reward_rules import ROUTE_STEP
from r1_router.training.grpo.places import Loop, Place, key
from r1_router.training.grpo.prompts import FINAL_STEP
from r1_router.training.grpo.rounds import Answers, Rounds
from r1_router.types import LLM, Encoder, Message, Passage, Query, Retriever, Sampling, Source, Step

SAME_QUESTION = 0.8
"""The least cosine at which the policy's sub-question passes for the teacher's, whose answer is the target."""
LIVE = "live"
"""What logs and replies name the fates of walks by."""
_log = logging.getLogger(__name__)


class Fate(StrEnum):
    """What became of a walk; all but the first leave the teacher's prompt."""

    OWN = "own"
    STOPPED = "stopped"
    OTHER_QUESTION = "other_question"
    UNANSWERED = "unanswered"
    TOO_LONG = "too_long"


@dataclass(frozen=True, slots=True)
class Arrival:
    """The chat that the policy is asked at a place, and its own sub-question where it is to be answered."""

    messages: Sequence[Message]
    asked: str | None = None


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
    prompts, kind, steps = loop.settings.prompts, place.kind, list[Step]()
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


def same_question(encoder: Encoder, asked: str, teachers: str) -> bool:
    """Whether the answer to the teacher's sub-question is that to the policy's."""
    first, second = encoder.encode([Query(asked), Query(teachers)])
    return float(first @ second) >= SAME_QUESTION


@dataclass(frozen=True, slots=True)
class Walks:
    """The walks of a run: its loop, the places of its prompts by their chats' keys, and what fits a prompt in.

    `fit` leaves out passages, and gives None where that is not enough.
    """

    loop: Loop
    places: Mapping[str, Place]
    encoder: Encoder
    fit: Callable[[Sequence[Message]], Sequence[Message] | None]

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
        if arrival.asked is not None and not same_question(self.encoder, arrival.asked, place.asked):
            return Fate.OTHER_QUESTION
        return self.fit(text_only(arrival.messages)) or Fate.TOO_LONG


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
            trainer._log_metric(f"{LIVE}/{fate}", fates[fate] / len(chats))
        return self._rollouts([own.get(key(messages), messages) for messages in prompts], trainer)
