"""`lower_case`: the model reads the question as it reads its own steps; the record keeps it as it was asked."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from r1_router.llm.scripted import ScriptedLLM
from r1_router.methods import Settings, make_method
from r1_router.prompts import load_prompts
from r1_router.types import TEXT, Passage, Query, Question, Trajectory

STOP = "<think>t</think><sub-question>none</sub-question><ret>none</ret>"
ANSWER = "<think>t</think><answer>x</answer>"


class OnePassage:
    async def search(self, query: Query, k: int) -> list[Passage]:
        return [Passage("p", "Suva is the capital", 1.0, TEXT)]


@pytest.mark.parametrize("method", ["r1-router", "rag", "direct", "cot"])
@pytest.mark.parametrize(("lower_case", "read"), [(True, "capital of fiji"), (False, "Capital of Fiji")])
def test_the_question_is_read_as_set(method: str, lower_case: bool, read: str) -> None:
    def reply(messages: Any) -> str:
        return STOP if "Plan the next step" in messages[0]["content"] else ANSWER

    llm = ScriptedLLM(reply)
    run = make_method(method, Settings(load_prompts("trained"), lower_case=lower_case))

    async def answer() -> Trajectory:
        return await run(Question("q", "Capital of Fiji"), llm, {TEXT: OnePassage()})

    done = asyncio.run(answer())
    assert done.question.text == "Capital of Fiji"
    assert llm.calls and all(read in str(call) for call in llm.calls)
