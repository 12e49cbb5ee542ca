"""What methods are built of: plan, gather, answer, conclude; each one coroutine over one question's `Work`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from r1_router.errors import PromptTooLong
from r1_router.methods.work import Work
from r1_router.prompts import answer_messages, final_messages, route_messages, with_reminder, without_system
from r1_router.replies import ANSWER_PATTERN, BadReply, parse_answer, parse_plan, plan_pattern
from r1_router.types import IMAGE, NONE, Answer, Message, Passage, Plan, Query, Source, Step

PLAN_TRIES = 5
REMIND_AFTER = 3
ANSWER_TRIES = 3
GIVEN_UP = Plan(NONE, NONE)
"""The plan after five malformed replies: nothing more is asked."""

Parsed = TypeVar("Parsed")


async def plan(work: Work, steps: Sequence[Step]) -> Plan:
    """The next sub-question and its source; after five malformed replies, the plan that stops.

    As the reference intends: the reminder follows the third malformed reply and stays to the last try. Where that
    reply rambled so long that both do not fit the context, the request is made without them.
    """
    sources = tuple(work.retrievers)
    request = messages = route_messages(work.settings.prompts, work.read, history(steps), sources)
    for attempt in range(PLAN_TRIES):
        try:
            reply = await work.chat(messages, attempt, plan_pattern(sources))
        except PromptTooLong:
            if messages is request:
                raise
            messages = request
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
