"""The tag grammar: a model's reply becomes a Plan, an Answer, or a BadReply that says what is wrong with it.

    <think>..</think> <sub-question>..</sub-question> <ret>text retriever</ret>
    <think>..</think> <answer>..</answer>

As in the reference, the whole reply is lower-cased, the first of each tag counts wherever it stands (inside
`<think>` too), text around the tags is let pass, and what the tags hold is stripped.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from r1_router.types import NONE, Answer, Plan, Source

NULL = "null"
"""What some models write for `none`; the reference takes a sub-question of it as a stop, whatever the retriever."""


@dataclass(frozen=True, slots=True)
class BadReply:
    """A reply that breaks the grammar; `reason` can be shown to the model or to a person."""

    reason: str


def parse_plan(text: str, sources: Sequence[Source], *, single: bool = False) -> Plan | BadReply:
    """A routing reply as a Plan over the configured `sources`.

    Several sources may be named, split by commas; one named twice is asked once. `single` refuses more than one
    name. The first name is `none` exactly when the sub-question is; a later `none` means nothing and is left out.
    An empty sub-question is accepted, and stops.
    """
    blocks = _blocks(text, ("think", "sub-question", "ret"))
    if isinstance(blocks, BadReply):
        return blocks
    thought, query = blocks["think"], blocks["sub-question"]
    names = [name.strip() for name in blocks["ret"].split(",")]
    by_name = {source.name.lower(): source for source in sources}
    if problem := _problem(query, names, [*by_name, NONE], single):
        return BadReply(problem)
    if query == NULL:
        return Plan(thought, NONE)
    return Plan(thought, query, tuple(by_name[name] for name in dict.fromkeys(names) if name != NONE))


def parse_answer(text: str) -> Answer | BadReply:
    """An answering reply; an empty answer is accepted, a missing thought is not."""
    blocks = _blocks(text, ("think", "answer"))
    return blocks if isinstance(blocks, BadReply) else Answer(blocks["think"], blocks["answer"])


def format_plan(thought: str, query: str, source_name: str) -> str:
    """The reply that `parse_plan` reads back, in the form the router is trained to write."""
    return f"<think>{thought}</think>\n<sub-question>{query}</sub-question>\n<ret>{source_name}</ret>"


def format_answer(thought: str, answer: str) -> str:
    """The reply that `parse_answer` reads back, in the form the model is trained to write."""
    return f"<think>{thought}</think>\n<answer>{answer}</answer>"


def plan_pattern(sources: Sequence[Source]) -> str:
    """A regular expression of well-formed plans, the configured sources the only choices; for constrained decoding."""
    names = "|".join(re.escape(source.name).replace("\\ ", " ") for source in sources)
    asks = rf"<sub-question>[^<\n]+</sub-question>\n<ret>({names})</ret>"
    stops = rf"<sub-question>{NONE}</sub-question>\n<ret>{NONE}</ret>"
    return rf"<think>[^<]+</think>\n({asks}|{stops})"


ANSWER_PATTERN = r"<think>[^<]+</think>\n<answer>[^<\n]+</answer>"
"""Likewise of well-formed answers."""


def _blocks(text: str, tags: Sequence[str]) -> Mapping[str, str] | BadReply:
    """What the first block of each tag holds, or which one is missing."""
    lowered = text.lower()
    blocks = {}
    for tag in tags:
        block = re.search(f"<{tag}>(.*?)</{tag}>", lowered, re.DOTALL)
        if block is None:
            return BadReply(f"no <{tag}>..</{tag}> block")
        blocks[tag] = block.group(1).strip()
    return blocks


def _problem(query: str, names: Sequence[str], known: Sequence[str], single: bool) -> str | None:
    """What is wrong with a sub-question and the names in its `<ret>`, if anything."""
    for name in names:
        if name not in known:
            return f"unknown retriever {name!r}; known are {', '.join(known)}"
    if single and len(names) > 1:
        return f"one retriever is wanted, found {len(names)}"
    if (names[0] == NONE) != (query == NONE):
        return "the sub-question and the retriever must both be none, or neither"
    return None
