"""Builders of chat messages: pure functions from questions, histories and passages to messages.

The layout of user texts (`Origin question:`, `Sub-question1:`, `ter-0:`) is the reference's, so that a
model trained on its step data reads what it knows; the wording of all else is in the text files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from r1_router.prompts.sets import Prompt, PromptSet
from r1_router.types import Message, Passage, Query, Question, Source

History = Sequence[tuple[str, str]]
"""The sub-questions asked so far with their answers, oldest first."""


def route_messages(
    prompts: PromptSet, question: Question, history: History, sources: Sequence[Source]
) -> list[Message]:
    """Ask for the next sub-question and the source it goes to."""
    router = replace(prompts.router, system=_with_sources(prompts.router.system, sources))
    return _chat(router, _origin(question, history), question.image)


def answer_messages(prompts: PromptSet, query: Query, passages: Sequence[Passage]) -> list[Message]:
    """Ask for the answer to one sub-question; passages stand in blocks, one a source, in the order given."""
    return _chat(prompts.answer, f"{evidence(passages)}\nQuestion: {query.text}", query.image)


def final_messages(prompts: PromptSet, question: Question, history: History) -> list[Message]:
    """Ask for the answer to the origin question from all sub-questions and answers."""
    request = prompts.final_request.replace("{question}", question.text)
    return _chat(prompts.final, _origin(question, history) + request, question.image)


def rag_messages(prompts: PromptSet, question: Question, passages: Sequence[Passage]) -> list[Message]:
    """Ask for the answer to the origin question from passages found with the question itself."""
    return answer_messages(prompts, Query(question.text, question.image), passages)


def direct_messages(prompts: PromptSet, question: Question) -> list[Message]:
    """Ask the question and nothing else."""
    return _chat(prompts.direct, f"Question: {question.text}", question.image)


def cot_messages(prompts: PromptSet, question: Question) -> list[Message]:
    """Ask the question, with thoughts before the answer."""
    return _chat(prompts.cot, f"Question: {question.text}", question.image)


def with_reminder(
    prompts: PromptSet, messages: Sequence[Message], bad_reply: str, sources: Sequence[Source]
) -> list[Message]:
    """The same request, followed by the malformed reply and a reminder of the form asked for."""
    return [
        *messages,
        {"role": "assistant", "content": bad_reply},
        {"role": "user", "content": _with_sources(prompts.reminder, sources)},
    ]


def without_system(messages: Sequence[Message]) -> list[Message]:
    """The same request, without its system text (the reference's last try for an answer)."""
    return [message for message in messages if message["role"] != "system"]


def evidence(passages: Sequence[Passage]) -> str:
    """One line a passage, `{tag}-{i}: {text}`, numbered from 0 within each source."""
    counts: dict[str, int] = {}
    lines = []
    for passage in passages:
        tag = passage.source.tag
        lines.append(f"{tag}-{counts.get(tag, 0)}: {passage.text}\n")
        counts[tag] = counts.get(tag, 0) + 1
    return "".join(lines)


def _origin(question: Question, history: History) -> str:
    lines = [f"Origin question: {question.text}\n"]
    lines += [f"Sub-question{n}: {query}\nAnswer{n}: {answer}\n" for n, (query, answer) in enumerate(history, start=1)]
    return "".join(lines)


def _chat(prompt: Prompt, text: str, image: str | None) -> list[Message]:
    system = {"role": "system", "content": prompt.system}
    return [system, *prompt.shots, {"role": "user", "content": _content(text, image)}]


def _content(text: str, image: str | None) -> str | list[dict[str, str]]:
    """Plain text, or the text with the image after it."""
    if image is None:
        return text
    return [{"type": "text", "text": text}, {"type": "image", "image": image}]


def _with_sources(text: str, sources: Sequence[Source]) -> str:
    """Fill in the names and purposes of the configured sources."""
    names = ", ".join(source.name for source in sources)
    purposes = "\n".join(f"- {source.name}: {source.purpose}" for source in sources)
    return text.replace("{sources}", names).replace("{purposes}", purposes)
