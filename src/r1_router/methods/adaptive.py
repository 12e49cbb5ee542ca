"""Adaptive retrieval that routes once, for the whole question (Jeong et al., arXiv 2403.14403, section 3.2).

One decision is made before anything is searched: which source to ask, or none. Then the question is answered from what
that source finds for it, or, after none, from the model alone.

Deviations: the classifier is the router itself on its first prompt, its classes are the sources and none (no
retrieval, one retrieval and many there), and the question itself is searched.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from r1_router.methods.blocks import conclude, plan, read_answer, searched, shown
from r1_router.methods.work import Settings, Work
from r1_router.prompts import rag_messages
from r1_router.types import LLM, Method, Question, Retriever, Source, Step, Trajectory


def adaptive(settings: Settings) -> Method:
    """Choose a source by the first plan, search the question there, answer."""

    async def run(question: Question, llm: LLM, retrievers: Mapping[Source, Retriever]) -> Trajectory:
        work = Work(question, llm, retrievers, settings)
        first = await plan(work, [])
        if first.stops:
            work.tell(Step(first))
            return work.finish([Step(first)], await conclude(work, []))
        step = await searched(work, replace(first, query=question.text))
        messages = rag_messages(settings.prompts, work.read, shown(work, step.passages))
        return work.finish([step], await read_answer(work, messages))

    return run
