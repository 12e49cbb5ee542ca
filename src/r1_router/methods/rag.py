"""Retrieve once, then answer (Lewis et al., arXiv 2005.11401), from one knowledge base or from all of them."""

from __future__ import annotations

from collections.abc import Mapping

from r1_router.methods.blocks import read_answer, searched, shown
from r1_router.methods.work import Settings, Work
from r1_router.prompts import rag_messages
from r1_router.types import LLM, Method, Plan, Question, Retriever, Source, Trajectory


def rag(settings: Settings, tag: str | None = None) -> Method:
    """Search with the question itself; `tag` names the one source to ask, None asks all.

    What was retrieved stands in the trajectory as one step without an answer of its own.
    """

    async def run(question: Question, llm: LLM, retrievers: Mapping[Source, Retriever]) -> Trajectory:
        work = Work(question, llm, retrievers, settings)
        asked = tuple(source for source in retrievers if tag in (None, source.tag))
        step = await searched(work, Plan("", question.text, asked))
        messages = rag_messages(settings.prompts, work.read, shown(work, step.passages))
        return work.finish([step], await read_answer(work, messages))

    return run
