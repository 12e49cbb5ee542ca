"""R1-Router: stepwise planning and routing over several knowledge bases (arXiv 2505.22095, section 3.1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from r1_router.methods.blocks import answer, conclude, plan, searched
from r1_router.methods.work import Settings, Work
from r1_router.types import LLM, Method, Plan, Question, Retriever, Source, Step, Trajectory

Reroute = Callable[[Work, int, Plan], Plan]
"""Changes the plan of step `n`, counted from 0."""


def routed(settings: Settings, reroute: Reroute = lambda work, n, plan: plan) -> Method:
    """The routed loop: plan, gather, answer, till the plan stops or the steps are used up; then conclude."""

    async def run(question: Question, llm: LLM, retrievers: Mapping[Source, Retriever]) -> Trajectory:
        work = Work(question, llm, retrievers, settings)
        steps: list[Step] = []
        while len(steps) < settings.max_steps:
            chosen = reroute(work, len(steps), await plan(work, steps))
            if chosen.stops:
                steps.append(Step(chosen))
                work.tell(steps[-1])
                break
            step = await searched(work, chosen)
            steps.append(replace(step, answer=await answer(work, chosen, step.passages)))
            work.tell(steps[-1])
        return work.finish(steps, await conclude(work, steps))

    return run
