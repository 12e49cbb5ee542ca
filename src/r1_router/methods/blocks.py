"""What methods are built of: plan, gather, answer, conclude; each one coroutine over one question's `Work`."""

from __future__ import annotations

import asyncio
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from r1_router.errors import KnowledgeBaseDown, PromptTooLong
from r1_router.prompts import (
    PromptSet,
    answer_messages,
    final_messages,
    route_messages,
    with_reminder,
    without_last_passage,
    without_system,
)
from r1_router.replies import ANSWER_PATTERN, BadReply, parse_answer, parse_plan, plan_pattern
from r1_router.types import (
    IMAGE,
    LLM,
    MAX_STEPS,
    NONE,
    Answer,
    Message,
    Passage,
    Plan,
    Query,
    Question,
    Retriever,
    Sampling,
    Source,
    Step,
    Trajectory,
    Usage,
)

PLAN_TRIES = 5
REMIND_AFTER = 3
ANSWER_TRIES = 3
RETRY_TEMPERATURE = 0.7
"""Least temperature of a second try: a greedy model would write the same malformed reply again."""
GIVEN_UP = Plan(NONE, NONE)
"""The plan after five malformed replies: nothing more is asked."""

Parsed = TypeVar("Parsed")
Event = Step | Answer
OnEvent = Callable[[Event], None]
"""Told of each step as it grows (planned, searched, answered where steps have answers), then of the final answer."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How a method works, whatever the question.

    `retrieved` passages of each source asked are kept in the trajectory, the first `shown` of them
    stand in the prompt. With `lower_case` the model reads the question in lower case, as it reads its own earlier
    sub-questions and answers: a name is then copied token for token. With `constrained` the engine holds plans and
    answers to their form. With `forget_on_stop` the final prompt after a plan of none holds no sub-questions, as the
    reference's code has it, against its intent; for comparisons only.
    """

    prompts: PromptSet
    sampling: Sampling = field(default_factory=Sampling)
    retrieved: int = 10
    shown: int = 5
    max_steps: int = MAX_STEPS
    lower_case: bool = False
    constrained: bool = False
    forget_on_stop: bool = False
    on_event: OnEvent | None = None


class Work:
    """One question being worked on: the model and the retrievers at hand, and the count of what is used.

    `used` is what earlier stages of the same question have used.
    """

    def __init__(
        self,
        question: Question,
        llm: LLM,
        retrievers: Mapping[Source, Retriever],
        settings: Settings,
        used: Usage | None = None,
    ) -> None:
        self.question = question
        self.read = replace(question, text=question.text.lower()) if settings.lower_case else question
        self.retrievers = retrievers
        self.settings = settings
        self.usage = used or Usage()
        self._llm = llm
        self._started = time.perf_counter() - self.usage.seconds

    async def chat(self, messages: Sequence[Message], attempt: int, pattern: str = "") -> str:
        """One reply; each call has a seed of its own, the same in every run whatever else is in flight.

        A prompt too long for the context is asked again with less evidence, the last passages left out first.
        """
        sampling = replace(self.settings.sampling, pattern=pattern if self.settings.constrained else "")
        seed = zlib.crc32(f"{sampling.seed} {self.question.id} {self.usage.calls}".encode())
        temperature = max(sampling.temperature, RETRY_TEMPERATURE) if attempt else sampling.temperature
        sampling = replace(sampling, seed=seed, temperature=temperature)
        self._count(calls=1)
        while True:
            try:
                reply = await self._llm.chat(messages, sampling=sampling)
            except PromptTooLong:
                shorter = without_last_passage(messages)
                if shorter is None:
                    raise
                messages = shorter
                self._count(dropped=1)
            else:
                self._count(prompt_tokens=reply.prompt_tokens, completion_tokens=reply.completion_tokens)
                return reply.text

    async def search(self, source: Source, query: Query) -> list[Passage]:
        """The passages of one source, best first; none, which is counted, where its knowledge base is down."""
        self._count(retrievals=1)
        try:
            return await self.retrievers[source].search(query, self.settings.retrieved)
        except KnowledgeBaseDown:
            self._count(unanswered=1)
            return []

    def note_malformed(self) -> None:
        """Count one reply that broke the grammar."""
        self._count(malformed=1)

    def tell(self, event: Event) -> None:
        """Show what has just come about to whoever watches."""
        if self.settings.on_event is not None:
            self.settings.on_event(event)

    def finish(self, steps: Sequence[Step], answer: Answer) -> Trajectory:
        """The trajectory, with what it cost."""
        self.tell(answer)
        return replace(self.pause(steps), answer=answer)

    def pause(self, steps: Sequence[Step]) -> Trajectory:
        """The trajectory so far, without an answer, with what it has cost."""
        usage = replace(self.usage, seconds=round(time.perf_counter() - self._started, 4))
        return Trajectory(self.question, tuple(steps), usage=usage)

    def _count(self, **more: int) -> None:
        self.usage = replace(self.usage, **{name: getattr(self.usage, name) + n for name, n in more.items()})


async def plan(work: Work, steps: Sequence[Step]) -> Plan:
    """The next sub-question and its source; after five malformed replies, the plan that stops.

    As the reference intends: the reminder follows the third malformed reply and stays to the last try.
    """
    sources = tuple(work.retrievers)
    messages = route_messages(work.settings.prompts, work.read, history(steps), sources)
    for attempt in range(PLAN_TRIES):
        reply = await work.chat(messages, attempt, plan_pattern(sources))
        parsed = parse_plan(reply, sources)
        if not isinstance(parsed, BadReply):
            return parsed
        work.note_malformed()
        if attempt + 1 == REMIND_AFTER:
            messages = with_reminder(work.settings.prompts, messages, reply, sources)
    return GIVEN_UP


async def gather(work: Work, plan: Plan) -> tuple[Passage, ...]:
    """Ask the plan's sources at once; passages come in blocks, in the order the sources are configured.

    The question's image goes to the image source only: the others hold no pictures.
    """
    text = plan.query.lower().strip()
    asked = [source for source in work.retrievers if source in plan.sources]
    queries = [Query(text, work.question.image if source.tag == IMAGE.tag else None) for source in asked]
    found = await asyncio.gather(*map(work.search, asked, queries))
    return tuple(passage for block in found for passage in block)


async def searched(work: Work, plan: Plan) -> Step:
    """The plan's step with its passages; whoever watches is shown the plan first."""
    work.tell(Step(plan))
    step = Step(plan, await gather(work, plan))
    if step.passages:
        work.tell(step)
    return step


async def answer(work: Work, plan: Plan, passages: Sequence[Passage]) -> Answer:
    """Answer the plan's sub-question from the passages shown."""
    query = Query(plan.query, work.question.image)
    return await read_answer(work, answer_messages(work.settings.prompts, query, shown(work, passages)))


async def conclude(work: Work, steps: Sequence[Step]) -> Answer:
    """The final answer from all steps before."""
    forgotten = work.settings.forget_on_stop and bool(steps) and steps[-1].plan.stops
    asked = [] if forgotten else history(steps)
    return await read_answer(work, final_messages(work.settings.prompts, work.read, asked))


async def read_answer(work: Work, messages: Sequence[Message]) -> Answer:
    """Ask till the reply has the answer's form; the last reply is taken whole, in lower case, as the reference does.

    Also as there, the third try goes without the system text.
    """
    reply = ""
    for attempt in range(ANSWER_TRIES):
        last_resort = attempt + 1 == ANSWER_TRIES
        reply = await work.chat(without_system(messages) if last_resort else messages, attempt, ANSWER_PATTERN)
        parsed = parse_answer(reply)
        if not isinstance(parsed, BadReply):
            return parsed
        work.note_malformed()
    return untagged(reply)


def untagged(reply: str) -> Answer:
    """A reply without tags as the answer it is."""
    return Answer("", reply.lower().strip())


async def parsed_reply(
    work: Work, messages: Sequence[Message], parse: Callable[[str], Parsed | BadReply], tries: int = ANSWER_TRIES
) -> Parsed | None:
    """The first reply that `parse` accepts, or None after so many malformed ones."""
    for attempt in range(tries):
        parsed = parse(await work.chat(messages, attempt))
        if not isinstance(parsed, BadReply):
            return parsed
        work.note_malformed()
    return None


def history(steps: Sequence[Step]) -> list[tuple[str, str]]:
    """The sub-questions asked and their answers; a step that stopped asked nothing."""
    return [(step.plan.query, step.answer.text if step.answer else "") for step in steps if not step.plan.stops]


def shown(work: Work, passages: Sequence[Passage]) -> list[Passage]:
    """The first passages of each source, those that go into the prompt."""
    blocks: dict[Source, list[Passage]] = {}
    for passage in passages:
        blocks.setdefault(passage.source, []).append(passage)
    return [passage for block in blocks.values() for passage in block[: work.settings.shown]]


def pooled(work: Work, steps: Sequence[Step]) -> list[Passage]:
    """All that the steps have shown, each passage once, in blocks by source as they are configured."""
    found = {
        (passage.source, passage.id, passage.text): passage for step in steps for passage in shown(work, step.passages)
    }
    return [passage for source in work.retrievers for passage in found.values() if passage.source == source]
