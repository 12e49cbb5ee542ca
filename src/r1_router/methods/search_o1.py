"""Search-o1: search within the reasoning, findings refined before they are read (Li et al., arXiv 2501.05366).

As in algorithm 1, the model reasons till it writes a search query; the passages found go through Reason-in-Documents, a
call of its own that writes down what helps the reasoning on; that note joins it, and it goes on till the answer.

Deviations: each turn is a chat of its own that shows the reasoning so far, so that any engine serves (there one
generation is halted and resumed); the tags are `<search>` and `<result>`; every configured source is searched;
`max_steps` searches at most, after which the final prompt is asked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from r1_router.methods.blocks import conclude, parsed_reply, searched, shown
from r1_router.methods.work import Settings, Work
from r1_router.prompts import documents_messages, reasoning_messages
from r1_router.replies import BadReply
from r1_router.types import LLM, Answer, Method, Plan, Question, Retriever, Source, Step, Trajectory

TURN = re.compile(r"(.*?)<(search|answer)>\s*(?!</)(\S.*?)\s*(?:</\2>|$)", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Turn:
    """One stretch of reasoning and what ends it: a search query, or the answer."""

    thought: str
    text: str
    answers: bool


def search_o1(settings: Settings) -> Method:
    """Reason, search, note down what helps, till the answer."""

    async def run(question: Question, llm: LLM, retrievers: Mapping[Source, Retriever]) -> Trajectory:
        work = Work(question, llm, retrievers, settings)
        steps: list[Step] = []
        reasoning = ""
        while len(steps) < settings.max_steps:
            turn = await parsed_reply(work, reasoning_messages(work.read, reasoning), parse_turn)
            if turn is None:
                break
            if turn.answers:
                return work.finish(steps, Answer(turn.thought, turn.text.lower()))
            step = await searched(work, Plan(turn.thought, turn.text, tuple(retrievers)))
            reasoning += f"{turn.thought} <search>{turn.text}</search>".lstrip()
            found = shown(work, step.passages)
            note = await work.chat(documents_messages(work.read, reasoning, turn.text, found), attempt=0)
            steps.append(replace(step, answer=Answer("", note.strip())))
            work.tell(steps[-1])
            reasoning += f"\n<result>{note.strip()}</result>\n"
        return work.finish(steps, await conclude(work, steps))

    return run


def parse_turn(text: str) -> Turn | BadReply:
    """The reasoning up to the first search or answer; the closing tag may be missing, as where decoding stops at it."""
    found = TURN.match(text)
    if found is None:
        return BadReply("neither <search> nor <answer>")
    return Turn(found[1].strip(), found[3], found[2].lower() == "answer")
