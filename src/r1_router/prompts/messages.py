"""Builders of chat messages: pure functions from questions, histories and passages to messages.

The layout of user texts (`Origin question:`, `Sub-question1:`, `ter-0:`) is the reference's, so that a
model trained on its step data reads what it knows; the wording of all else is in the text files.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from r1_router.prompts.sets import Prompt, PromptSet
from r1_router.types import Message, Passage, Query, Question, Source

PASSAGE_START = re.compile(r"(?:^|(?<=:))\w+-\d+: ", re.MULTILINE)
"""A passage's label, at the start of a line, or right after an introduction that ends in a colon."""
EVIDENCE_END = re.compile(r"\n\n(?!\n*\w+-\d+: )")
"""The empty line that ends the evidence: after it no other passage begins."""
_EMPTY_LINES = re.compile(r"\n\s*\n")

History = Sequence[tuple[str, str]]
"""The sub-questions asked so far with their answers, oldest first."""


def route_messages(
    prompts: PromptSet, question: Question, history: History, sources: Sequence[Source]
) -> list[Message]:
    """Ask for the next sub-question and the source it goes to."""
    return chat(with_sources(prompts.router, sources), origin(question, history), question.image)


def answer_messages(prompts: PromptSet, query: Query, passages: Sequence[Passage]) -> list[Message]:
    """Ask for the answer to one sub-question; passages stand in blocks, one a source, in the order given."""
    before, _, after = prompts.answer_request.partition("{evidence}")
    request = before + evidence(passages) + after.replace("{question}", query.text)
    return chat(prompts.answer, request, query.image)


def final_messages(prompts: PromptSet, question: Question, history: History) -> list[Message]:
    """Ask for the answer to the origin question from all sub-questions and answers."""
    request = prompts.final_request.replace("{question}", question.text)
    return chat(prompts.final, origin(question, history) + request, question.image)


def rag_messages(prompts: PromptSet, question: Question, passages: Sequence[Passage]) -> list[Message]:
    """Ask for the answer to the origin question from passages found with the question itself."""
    return answer_messages(prompts, Query(question.text, question.image), passages)


def direct_messages(prompts: PromptSet, question: Question) -> list[Message]:
    """Ask the question and nothing else."""
    return chat(prompts.direct, f"Question: {question.text}", question.image)


def cot_messages(prompts: PromptSet, question: Question) -> list[Message]:
    """Ask the question, with thoughts before the answer."""
    return chat(prompts.cot, f"Question: {question.text}", question.image)


def with_reminder(
    prompts: PromptSet, messages: Sequence[Message], bad_reply: str, sources: Sequence[Source]
) -> list[Message]:
    """The same request, followed by the malformed reply and a reminder of the form asked for."""
    return [
        *messages,
        {"role": "assistant", "content": bad_reply},
        {"role": "user", "content": _filled(prompts.reminder, sources)},
    ]


def without_system(messages: Sequence[Message]) -> list[Message]:
    """The same request, without its system text (the reference's last try for an answer)."""
    return [message for message in messages if message["role"] != "system"]


def evidence(passages: Sequence[Passage]) -> str:
    """One line a passage, `{tag}-{i}: {text}`, numbered from 0 within each source; an empty line would end them."""
    counts: dict[str, int] = {}
    lines = []
    for passage in passages:
        tag = passage.source.tag
        text = _EMPTY_LINES.sub("\n", passage.text)
        lines.append(f"{tag}-{counts.get(tag, 0)}: {text}\n")
        counts[tag] = counts.get(tag, 0) + 1
    return "".join(lines)


def without_last_passage(messages: Sequence[Message]) -> list[Message] | None:
    """The same request with the last passage of its evidence left out; None where it holds none.

    The evidence ends at its first empty line: what is asked under it may hold more of them, and is kept.
    """
    *before, last = messages
    content = last["content"]
    text, *images = [{"type": "text", "text": content}] if isinstance(content, str) else content
    written = text["text"]
    first = PASSAGE_START.search(written)
    end = EVIDENCE_END.search(written, first.end()) if first else None
    if end is None:
        return None
    last_start = [found.start() for found in PASSAGE_START.finditer(written, endpos=end.start())][-1]
    shorter = written[:last_start] + "\n" + written[end.end() :]
    kept = shorter if isinstance(content, str) else [{**text, "text": shorter}, *images]
    return [*before, {**last, "content": kept}]


def origin(question: Question, history: History) -> str:
    """The question, then the sub-questions asked so far with their answers."""
    lines = [f"Origin question: {question.text}\n"]
    lines += [f"Sub-question{n}: {query}\nAnswer{n}: {answer}\n" for n, (query, answer) in enumerate(history, start=1)]
    return "".join(lines)


def chat(prompt: Prompt, text: str, image: str | None) -> list[Message]:
    """The system text, the examples, then `text` with the image after it."""
    system = {"role": "system", "content": prompt.system}
    return [system, *prompt.shots, {"role": "user", "content": _content(text, image)}]


def _content(text: str, image: str | None) -> str | list[dict[str, str]]:
    """Plain text, or the text with the image after it."""
    if image is None:
        return text
    return [{"type": "text", "text": text}, {"type": "image", "image": image}]


def with_sources(prompt: Prompt, sources: Sequence[Source]) -> Prompt:
    """The prompt with the configured sources' names and purposes filled in."""
    return replace(prompt, system=_filled(prompt.system, sources))


def _filled(text: str, sources: Sequence[Source]) -> str:
    names = ", ".join(source.name for source in sources)
    purposes = "\n".join(f"- {source.name}: {source.purpose}" for source in sources)
    return text.replace("{sources}", names).replace("{purposes}", purposes)
