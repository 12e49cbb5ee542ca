"""Chain of thought: the question alone, with thoughts before the answer (Wei et al., arXiv 2201.11903)."""

from __future__ import annotations

from collections.abc import Mapping

from r1_router.methods.blocks import read_answer
from r1_router.methods.work import Settings, Work
from r1_router.prompts import cot_messages
from r1_router.types import LLM, Method, Question, Retriever, Source, Trajectory


def cot(settings: Settings) -> Method:
    """Ask for thoughts and an answer, with no passages."""

    async def run(question: Question, llm: LLM, retrievers: Mapping[Source, Retriever]) -> Trajectory:
        work = Work(question, llm, retrievers, settings)
        return work.finish((), await read_answer(work, cot_messages(settings.prompts, work.read)))

    return run
