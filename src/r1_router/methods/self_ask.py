"""Self-ask with search (Press et al., arXiv 2210.03350, sections 3 and 3.2).

The model writes `Follow up:` and a question, which is searched and answered, and the answer is added as
`Intermediate answer:`; it goes on till it writes `So the final answer is:`.

Deviations: the intermediate answer is read from the passages of every configured source (a web search's answer box
there), `max_steps` follow-ups at most, and one set of examples serves every benchmark.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from r1_router.methods.blocks import answer, conclude, history, parsed_reply, searched
from r1_router.methods.work import Settings, Work
from r1_router.prompts import follow_up_messages
from r1_router.replies import BadReply
from r1_router.types import LLM, Answer, Method, Plan, Question, Retriever, Source, Step, Trajectory

FOLLOW_UP = re.compile(r"follow[- ]?up:\s*(\S.*)", re.IGNORECASE)
FINAL = re.compile(r"final answer is:?\s*(\S.*)", re.IGNORECASE)


def self_ask(settings: Settings) -> Method:
    """Ask follow-up questions one at a time, then answer."""

    async def run(question: Question, llm: LLM, retrievers: Mapping[Source, Retriever]) -> Trajectory:
        work = Work(question, llm, retrievers, settings)
        steps: list[Step] = []
        while len(steps) < settings.max_steps:
            said: str | Answer | None = await parsed_reply(
                work, follow_up_messages(work.read, history(steps)), parse_follow_up
            )
            if said is None:
                break
            if isinstance(said, Answer):
                return work.finish(steps, said)
            step = await searched(work, Plan("", said, tuple(retrievers)))
            steps.append(replace(step, answer=await answer(work, step.plan, step.passages)))
            work.tell(steps[-1])
        return work.finish(steps, await conclude(work, steps))

    return run


def parse_follow_up(text: str) -> str | Answer | BadReply:
    """The follow-up question, or the final answer, whichever comes first."""
    found = [match for match in (FOLLOW_UP.search(text), FINAL.search(text)) if match]
    if not found:
        return BadReply("neither a follow-up question nor the final answer")
    first = min(found, key=lambda match: match.start())
    said = first[1].strip()
    return said if first.re is FOLLOW_UP else Answer("", said.lower())
