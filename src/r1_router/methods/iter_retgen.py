"""Iter-RetGen: retrieval and generation in turn (Shao et al., arXiv 2305.15294, section 3.1, equation 1).

    y_t = M(q, Retrieve(y_(t-1) || q)),  y_0 empty

Each round's whole generation, thoughts included, is searched together with the question; the last answer counts.

Deviations: `max_steps` rounds (2 give most of the gain there), every configured source is searched, and the reader is
the answering prompt of the deployment's set.
"""

from __future__ import annotations

from collections.abc import Mapping

from r1_router.methods.blocks import read_answer, searched, shown
from r1_router.methods.work import Settings, Work
from r1_router.prompts import rag_messages
from r1_router.types import LLM, Answer, Method, Plan, Question, Retriever, Source, Step, Trajectory


def iter_retgen(settings: Settings) -> Method:
    """Retrieve with the last draft, draft again; the last draft's answer is the answer."""

    async def run(question: Question, llm: LLM, retrievers: Mapping[Source, Retriever]) -> Trajectory:
        work = Work(question, llm, retrievers, settings)
        steps: list[Step] = []
        draft = Answer("", "")
        while len(steps) < settings.max_steps:
            query = " ".join(part for part in (draft.thought, draft.text, question.text) if part)
            steps.append(await searched(work, Plan(draft.thought, query, tuple(retrievers))))
            draft = await read_answer(work, rag_messages(settings.prompts, work.read, shown(work, steps[-1].passages)))
        return work.finish(steps, draft)

    return run
