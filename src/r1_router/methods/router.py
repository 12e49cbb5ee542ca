"""R1-Router: stepwise planning and routing over several knowledge bases (arXiv 2505.22095, section 3.1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from r1_router.methods.blocks import Settings, Work, answer, conclude, gather, plan
from r1_router.types import LLM, Method, Question, Retriever, Source, Step, Trajectory


def routed(settings: Settings) -> Method:
    """The routed loop: plan, gather, answer, till the plan stops or the steps are used up; then conclude."""

    async def run(question: Question, llm: LLM, retrievers: Mapping[Source, Retriever]) -> Trajectory:
        work = Work(question, llm, retrievers, settings)
        steps: list[Step] = []
        while len(steps) < settings.max_steps:
            step = Step(await plan(work, steps))
            work.tell(step)
            if not step.plan.stops:
                step = replace(step, passages=await gather(work, step.plan))
                work.tell(step)
                step = replace(step, answer=await answer(work, step.plan, step.passages))
                work.tell(step)
            steps.append(step)
            if step.plan.stops:
                break
        return work.finish(steps, await conclude(work, steps))

    return run
