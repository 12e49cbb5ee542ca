"""Planning in the manner of CogPlanner (Yu et al., arXiv 2501.15470, section 3, parallel modelling).

In each round one call makes both choices: how to word or split the question as the next query, and which retriever to
send it to; what is found joins one pool of evidence. When the planner wants no more, the answer is read from the pool.

Deviations: the retrievers are the configured sources (text and image search of the web there), one query a round,
`max_steps` rounds at most; sequential modelling, a call for each choice, is left out; one set of examples.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from r1_router.methods.blocks import GIVEN_UP, parsed_reply, pooled, read_answer, searched
from r1_router.methods.work import Settings, Work
from r1_router.prompts import rag_messages, round_messages
from r1_router.replies import parse_plan
from r1_router.types import LLM, Method, Question, Retriever, Source, Step, Trajectory


def cogplanner(settings: Settings) -> Method:
    """Gather evidence in planned rounds, then answer from all of it."""

    async def run(question: Question, llm: LLM, retrievers: Mapping[Source, Retriever]) -> Trajectory:
        work = Work(question, llm, retrievers, settings)
        sources = tuple(retrievers)
        steps: list[Step] = []
        while len(steps) < settings.max_steps:
            queries = [step.plan.query for step in steps]
            messages = round_messages(work.read, queries, pooled(work, steps), sources)
            plan = await parsed_reply(work, messages, partial(parse_plan, sources=sources)) or GIVEN_UP
            if plan.stops:
                steps.append(Step(plan))
                work.tell(steps[-1])
                break
            steps.append(await searched(work, plan))
        return work.finish(
            steps, await read_answer(work, rag_messages(settings.prompts, work.read, pooled(work, steps)))
        )

    return run
