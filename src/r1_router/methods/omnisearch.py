"""Planning in the manner of OmniSearch (Li et al., arXiv 2411.02937, section 4).

A planner writes the next sub-question with the retriever to ask, or the final answer; a solver answers each
sub-question from what was found; the planner sees that finding and may ask again in other words, go on, or end.

Deviations: the retrievers are the configured sources (four web tools there), the solver's answer is the planner's
feedback, `max_steps` sub-questions at most, after which the final prompt is asked; one set of examples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from r1_router.methods.blocks import GIVEN_UP, answer, conclude, history, parsed_reply, searched
from r1_router.methods.work import Settings, Work
from r1_router.prompts import lead_messages
from r1_router.replies import BadReply, parse_answer, parse_plan
from r1_router.types import LLM, Answer, Method, Plan, Question, Retriever, Source, Step, Trajectory


def omnisearch(settings: Settings) -> Method:
    """Plan with the findings in view, till the planner itself answers."""

    async def run(question: Question, llm: LLM, retrievers: Mapping[Source, Retriever]) -> Trajectory:
        work = Work(question, llm, retrievers, settings)
        sources = tuple(retrievers)
        steps: list[Step] = []
        while len(steps) < settings.max_steps:
            messages = lead_messages(work.read, history(steps), sources)
            said: Plan | Answer | None = await parsed_reply(work, messages, partial(parse_lead, sources=sources))
            if isinstance(said, Answer):
                return work.finish([*steps, Step(GIVEN_UP)], said)
            if said is None or said.stops:
                break
            step = await searched(work, said)
            steps.append(replace(step, answer=await answer(work, step.plan, step.passages)))
            work.tell(steps[-1])
        return work.finish(steps, await conclude(work, steps))

    return run


def parse_lead(text: str, sources: Sequence[Source]) -> Plan | Answer | BadReply:
    """A plan or the final answer; a reply that holds both is a plan, for its answer was not yet found out."""
    plan = parse_plan(text, sources)
    return plan if isinstance(plan, Plan) else parse_answer(text)
