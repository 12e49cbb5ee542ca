"""The filter that asks the teacher again: is every retrieval of a trajectory needed for its answer?

A retrieval is taken away with all that leans on it: the later steps whose sub-question names what its answer alone had
told. The teacher gives the final answer anew from what is left; where that is right, the retrieval was not needed.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace

from r1_router.methods import Settings
from r1_router.methods.blocks import history, parsed_reply
from r1_router.methods.work import Work
from r1_router.prompts import final_messages
from r1_router.scoring import squad_tokens
from r1_router.synthesis.filters import FILTERS, NEEDED, Filter, answers_rightly
from r1_router.synthesis.teacher import TRIES, parse_teacher_answer
from r1_router.types import LLM, Method, Question, Retriever, Source, Step, Trajectory


def trials(trajectory: Trajectory) -> list[Trajectory]:
    """The trajectory without each of its retrievals in turn, unanswered; alike ones once.

    The ids say what is left, so that an answer is never taken for that of another rest.
    """
    asked = [number for number, step in enumerate(trajectory.steps) if not step.plan.stops]
    rests = dict.fromkeys(without(trajectory, number) for number in asked)
    return [Trajectory(replace(trajectory.question, id=_trial_id(trajectory.question, rest)), rest) for rest in rests]


def without(trajectory: Trajectory, number: int) -> tuple[Step, ...]:
    """What is left of the steps without step `number` and those that lean on it; passages and stops are left out."""
    known = set(squad_tokens(trajectory.question.text))
    gone: set[str] = set()
    left = []
    for place, step in enumerate(trajectory.steps):
        if step.plan.stops:
            continue
        query = set(squad_tokens(step.plan.query))
        if place == number or query & gone:
            gone |= set(squad_tokens(step.answer.text if step.answer else "")) - query - known
        else:
            known |= query | set(squad_tokens(step.answer.text if step.answer else ""))
            left.append(replace(step, passages=()))
    return tuple(left)


def concluding(settings: Settings, unanswered: Mapping[str, Trajectory]) -> Method:
    """Gives the final answer to each trial, by its id; one that is malformed twice is no answer."""

    async def run(question: Question, llm: LLM, retrievers: Mapping[Source, Retriever]) -> Trajectory:
        work = Work(question, llm, retrievers, settings)
        steps = unanswered[question.id].steps
        messages = final_messages(settings.prompts, work.read, history(steps))
        final = await parsed_reply(work, messages, parse_teacher_answer, TRIES)
        return work.pause(steps) if final is None else work.finish(steps, final)

    return run


def needed(answered: Sequence[Trajectory]) -> Filter:
    """Keeps a trajectory of which every trial was answered, and none rightly."""
    wrong = {one.question.id for one in answered if one.error is None and not answers_rightly(one)}
    return replace(FILTERS[NEEDED], keeps=lambda item: all(one.question.id in wrong for one in trials(item)))


def _trial_id(question: Question, rest: Sequence[Step]) -> str:
    return f"{question.id}/{zlib.crc32(repr(history(rest)).encode()):08x}"
