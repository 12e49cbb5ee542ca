"""Direct answering: the question alone, one call."""

from __future__ import annotations

from collections.abc import Mapping

from r1_router.methods.blocks import untagged
from r1_router.methods.work import Settings, Work
from r1_router.prompts import direct_messages
from r1_router.replies import BadReply, parse_answer
from r1_router.types import LLM, Method, Question, Retriever, Source, Trajectory


def direct(settings: Settings) -> Method:
    """Ask once; a reply without tags is the answer as it stands, for none are asked for."""

    async def run(question: Question, llm: LLM, retrievers: Mapping[Source, Retriever]) -> Trajectory:
        work = Work(question, llm, retrievers, settings)
        reply = await work.chat(direct_messages(settings.prompts, work.read), attempt=0)
        parsed = parse_answer(reply)
        return work.finish((), untagged(reply) if isinstance(parsed, BadReply) else parsed)

    return run
