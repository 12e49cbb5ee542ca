"""The released wording from the published step data: byte for byte the reference's, in the layout it was trained in."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from r1_router import jsonl
from r1_router.errors import DataError
from r1_router.llm.content import text_of
from r1_router.prompts import answer_messages, final_messages, load_prompts, route_messages
from r1_router.prompts.released import import_released, released_texts
from r1_router.prompts.sets import PromptSet
from r1_router.types import PUBLISHED_SOURCES, TABLE, TEXT, Message, Passage, Query, Question

SHARED = Path(__file__).parents[1].parent / "shared"
STEPS = SHARED / "datasets" / "grpo_dataset_valid_new.jsonl"
FINGERPRINTS = SHARED / "golden" / "prompt_fingerprints.json"


@pytest.fixture(scope="module")
def rows() -> list[Any]:
    if not STEPS.is_file():
        pytest.skip(f"the published step data ({STEPS.name}) is not here")
    return list(jsonl.read(STEPS))


@pytest.fixture
def released(rows: list[Any], tmp_path: Path) -> PromptSet:
    assert set(import_released(rows, tmp_path / "released").values()) == {True}
    return load_prompts(str(tmp_path / "released"))


def user(messages: Sequence[Message]) -> str:
    assert [message["role"] for message in messages] == ["system", "user"]
    return text_of(messages[-1])


def test_system_texts_have_the_published_fingerprints(released: PromptSet) -> None:
    if not FINGERPRINTS.is_file():
        pytest.skip("the golden data (../shared/golden) is not here")
    published = json.loads(FINGERPRINTS.read_text())
    names = {"router": "router_system_trained_model", "answer": "answer_system", "final": "final_answer_system"}
    for ours, theirs in names.items():
        system = getattr(released, ours).system
        assert hashlib.sha256(system.encode()).hexdigest() == published[theirs]["sha256"]


def test_prompts_are_built_as_the_checkpoint_was_trained(rows: list[Any], released: PromptSet) -> None:
    """Every routing and final prompt of the data, and the frame of every answering one."""
    counts = {"ret": 0, "ans": 0, "final": 0}
    before, after = (part.split("{question}")[0] for part in released.answer_request.split("{evidence}"))
    for row in rows:
        steps = row["steps"]
        question = Question("q", steps[0]["problem"].removesuffix("<image>").split(": ", 1)[1].split("\n")[0])
        history: list[tuple[str, str]] = []
        for step in steps[:-1]:
            problem = step["problem"].removesuffix("<image>")
            if step["step_type"] == "ret":
                assert user(route_messages(released, question, history, PUBLISHED_SOURCES)) == problem
                query = step["answer"]["query"]
                counts["ret"] += 1
            else:
                assert problem.startswith(before) and problem.endswith(after + query)
                history.append((query, step["answer"]))
                counts["ans"] += 1
        assert user(final_messages(released, question, history)) == steps[-1]["problem"].removesuffix("<image>")
        counts["final"] += 1
    assert counts == {"ret": 346, "ans": 293, "final": 119}


def test_evidence_stands_inside_the_frame(released: PromptSet) -> None:
    passages = [Passage("a", "one", 0.0, TEXT), Passage("b", "two {question}", 0.0, TABLE)]
    text = user(answer_messages(released, Query("who?"), passages))
    assert ":ter-0: one\ntar-0: two {question}\n\n\n Give" in text and text.endswith("Question: who?")


def test_rows_that_are_no_step_data_are_an_error() -> None:
    with pytest.raises(DataError, match="steps"):
        released_texts([{"question": "q"}])
    with pytest.raises(DataError, match="step file"):
        released_texts(
            [{"steps": [{"step_type": "ret", "system": "s", "problem": "Origin question: q\n", "answer": {}}]}]
        )
