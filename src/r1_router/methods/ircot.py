"""IRCoT: retrieval interleaved with chain of thought (Trivedi et al., arXiv 2212.10509, section 3).

Retrieve with the question. Then, in turn, *reason*: write one sentence of the chain of thought from all passages and
sentences so far, and *retrieve* with that sentence; till a sentence gives the answer or the steps are used up. At last
a reader answers from all passages.

Deviations: every configured source is searched at each step, `max_steps` retrievals at most (8 there), of each the
passages shown count (15 paragraphs in all there), and one set of examples serves every benchmark.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from r1_router.methods.blocks import pooled, read_answer, searched
from r1_router.methods.work import Settings, Work
from r1_router.prompts import rag_messages, thought_messages
from r1_router.types import LLM, Method, Plan, Question, Retriever, Source, Step, Trajectory

ANSWERS = re.compile(r"\banswer is\b", re.IGNORECASE)
SENTENCE = re.compile(r"\s*(.+?[.?!])(?=\s|$)", re.DOTALL)


def ircot(settings: Settings) -> Method:
    """Reason and retrieve by turns, then read."""

    async def run(question: Question, llm: LLM, retrievers: Mapping[Source, Retriever]) -> Trajectory:
        work = Work(question, llm, retrievers, settings)
        steps: list[Step] = []
        thoughts: list[str] = []
        query = question.text
        while len(steps) < settings.max_steps:
            steps.append(await searched(work, Plan(" ".join(thoughts[-1:]), query, tuple(retrievers))))
            reply = await work.chat(thought_messages(work.read, thoughts, pooled(work, steps)), attempt=0)
            query = first_sentence(reply)
            thoughts.append(query)
            if ANSWERS.search(reply) or not query:
                break
        return work.finish(
            steps, await read_answer(work, rag_messages(settings.prompts, work.read, pooled(work, steps)))
        )

    return run


def first_sentence(text: str) -> str:
    """The first sentence of a reply, all of it where none ends."""
    found = SENTENCE.match(text)
    return (found[1] if found else text).strip()
