"""Messages of the baselines that reason in their own form; the wording is in the text files of `baselines/`.

The texts hold their own examples and are the same whatever prompt set the deployment uses: these methods are prompted,
not trained.
"""

from __future__ import annotations

from collections.abc import Sequence

from r1_router.prompts.messages import History, chat, evidence, origin, with_sources
from r1_router.prompts.sets import load_prompt
from r1_router.types import Message, Passage, Question, Source


def thought_messages(question: Question, thoughts: Sequence[str], passages: Sequence[Passage]) -> list[Message]:
    """IRCoT: ask for the next sentence of the chain of thought."""
    said = " ".join(["Thoughts:", *thoughts])
    text = f"{evidence(passages)}\nQuestion: {question.text}\n{said}"
    return chat(load_prompt("baselines", "ircot"), text, question.image)


def follow_up_messages(question: Question, history: History) -> list[Message]:
    """Self-ask: ask for the next follow-up question, or the final answer."""
    lines = [f"Follow up: {query}\nIntermediate answer: {answer}" for query, answer in history]
    text = "\n".join([f"Question: {question.text}", *lines])
    return chat(load_prompt("baselines", "self_ask"), text, question.image)


def reasoning_messages(question: Question, reasoning: str) -> list[Message]:
    """Search-o1: ask for the reasoning to go on, up to a search or the answer."""
    return chat(load_prompt("baselines", "search_o1"), _reasoned(question, reasoning), question.image)


def documents_messages(question: Question, reasoning: str, query: str, passages: Sequence[Passage]) -> list[Message]:
    """Search-o1's Reason-in-Documents: ask what of the passages helps the reasoning on."""
    text = f"{evidence(passages)}\n{_reasoned(question, reasoning)}\nSearch query: {query}"
    return chat(load_prompt("baselines", "search_o1_documents"), text, question.image)


def round_messages(
    question: Question, queries: Sequence[str], passages: Sequence[Passage], sources: Sequence[Source]
) -> list[Message]:
    """CogPlanner: ask for the next query and retriever, from the evidence gathered so far."""
    used = "; ".join(queries) or "none"
    opening = f"{evidence(passages)}\n" if passages else ""
    text = f"{opening}Question: {question.text}\nQueries used: {used}"
    return chat(with_sources(load_prompt("baselines", "cogplanner"), sources), text, question.image)


def lead_messages(question: Question, history: History, sources: Sequence[Source]) -> list[Message]:
    """OmniSearch: ask for the next sub-question and retriever, or the answer, from what was found out so far."""
    prompt = with_sources(load_prompt("baselines", "omnisearch"), sources)
    return chat(prompt, origin(question, history), question.image)


def _reasoned(question: Question, reasoning: str) -> str:
    return f"Question: {question.text}\nReasoning: {reasoning}".rstrip()
