"""The routed loop cut into stages, so that one GPU can hold the model and the indexes by turns.

Stage `n` of the model answers sub-question `n - 1` from what was retrieved, then plans step `n`, or, after the last
step, gives the final answer; between two of them the retrievers search what was planned. The stages call the same
blocks with the same seeds as the whole loop, so both give the same trajectories.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from r1_router.methods.blocks import answer, conclude, gather, plan
from r1_router.methods.work import Settings, Work
from r1_router.types import LLM, Method, Question, Retriever, Source, Step, Trajectory

Before = Mapping[str, Trajectory]
"""By question id, the trajectories as the stage before left them; empty before the first stage."""


def model_stage(settings: Settings, number: int, before: Before) -> Method:
    """Stage `number`, 0 to `max_steps`: answer the last sub-question, then plan the next, or conclude at the end."""

    async def run(question: Question, llm: LLM, retrievers: Mapping[Source, Retriever]) -> Trajectory:
        earlier = before.get(question.id, Trajectory(question))
        work = Work(question, llm, retrievers, settings, earlier.usage)
        steps = list(earlier.steps)
        if steps and not steps[-1].plan.stops:
            steps[-1] = replace(steps[-1], answer=await answer(work, steps[-1].plan, steps[-1].passages))
        if number == settings.max_steps:
            return work.finish(steps, await conclude(work, steps))
        if not steps or not steps[-1].plan.stops:
            steps.append(Step(await plan(work, steps)))
        return work.pause(steps)

    return run


def retrieval_stage(settings: Settings, before: Before) -> Method:
    """Search what each question's last step has planned."""

    async def run(question: Question, llm: LLM, retrievers: Mapping[Source, Retriever]) -> Trajectory:
        earlier = before[question.id]
        work = Work(question, llm, retrievers, settings, earlier.usage)
        *steps, last = earlier.steps
        if not last.plan.stops:
            last = replace(last, passages=await gather(work, last.plan))
        return work.pause([*steps, last])

    return run
