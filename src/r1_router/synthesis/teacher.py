"""Teacher rollouts: the routed loop with a reasoning model whose malformed replies drop the question.

A training row must not hold a guess, so nothing is taken from a reply without its form: it is asked for once more, with
another seed, and then the question is dropped.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from r1_router.methods import Settings
from r1_router.methods.blocks import history, parsed_reply, searched, shown
from r1_router.methods.work import Work
from r1_router.prompts import answer_messages, final_messages, route_messages
from r1_router.replies import BadReply, parse_plan
from r1_router.types import LLM, NONE, Answer, Method, Plan, Query, Question, Retriever, Source, Step, Trajectory

TRIES = 2
"""Calls for one plan or answer, as in the reference."""
_RAW_NAMES = re.compile(r"<sub-question>(.*?)</sub-question>.*?<ret>(.*?)</ret>", re.DOTALL)


def teacher(settings: Settings, *, thought_opened: bool = False) -> Method:
    """The routed loop for step data; a trajectory without an answer was dropped (see `dropped`).

    With `thought_opened` a plan starts inside its thought: the chat template has opened it.
    """
    opening = "<think>" if thought_opened else ""

    async def run(question: Question, llm: LLM, retrievers: Mapping[Source, Retriever]) -> Trajectory:
        work, sources = Work(question, llm, retrievers, settings), tuple(retrievers)
        steps: list[Step] = []
        while len(steps) < settings.max_steps and not (steps and steps[-1].plan.stops):
            messages = route_messages(settings.prompts, work.read, history(steps), sources)
            plan = await parsed_reply(work, messages, lambda reply: parse_teacher_plan(opening + reply, sources), TRIES)
            if plan is None:
                return work.pause(steps)
            if plan.stops:
                work.tell(Step(plan))
                steps.append(Step(plan))
                continue
            step = await searched(work, plan)
            query = Query(plan.query, question.image)
            messages = answer_messages(settings.prompts, query, shown(work, step.passages))
            found = await parsed_reply(work, messages, parse_teacher_answer, TRIES)
            steps.append(replace(step, answer=found))
            work.tell(steps[-1])
            if found is None:
                return work.pause(steps)
        messages = final_messages(settings.prompts, work.read, history(steps))
        final = await parsed_reply(work, messages, parse_teacher_answer, TRIES)
        return work.pause(steps) if final is None else work.finish(steps, final)

    return run


def dropped(trajectory: Trajectory, max_steps: int) -> str | None:
    """Why a rollout has no answer: which reply never had its form; None where it has one."""
    if trajectory.answer is not None:
        return None
    if trajectory.error is not None:
        return "failed"
    steps = trajectory.steps
    if steps and not steps[-1].plan.stops and steps[-1].answer is None:
        return "sub-answer malformed"
    ended = len(steps) == max_steps or (steps and steps[-1].plan.stops)
    return "final answer malformed" if ended else "plan malformed"


def parse_teacher_plan(text: str, sources: Sequence[Source]) -> Plan | BadReply:
    """A plan by the same grammar as at inference, save two oddities of the reference's synthesis.

    `null` is no word for none here, and `none` padded on one side only (the sub-question, not the retriever, or the
    other way round) is refused, since the two are compared before they are stripped.
    """
    raw = _RAW_NAMES.search(text.lower())
    if raw and (raw[1] == NONE) != (raw[2].split(",")[0] == NONE):
        return BadReply("the sub-question and the retriever must both be none, or neither")
    return parse_plan(text, sources)


def parse_teacher_answer(text: str) -> Answer | BadReply:
    """What a reasoning model gives as its answer, in lower case; its thoughts are not kept.

    Models of this kind may leave out the opening tag after `</think>`, or the closing one at the end; the chat template
    may have opened `<think>` for them. The first closing tag ends the answer, the last opening one before it begins it.
    """
    reply = text.lower().strip()
    before, closing, _ = reply.partition("</answer>")
    if "<answer>" in before:
        answer = before.rpartition("<answer>")[2]
    elif closing and "</think>" in before:
        answer = before.rpartition("</think>")[2]
    else:
        return BadReply("no answer between tags, and none after </think>")
    return Answer("", answer.strip())
