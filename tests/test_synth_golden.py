"""Synthesis against the reference's own: replies read, retried, filtered and cut into rows as it does."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from r1_router import jsonl
from r1_router.llm.scripted import ScriptedLLM
from r1_router.methods import Settings
from r1_router.methods.blocks import parsed_reply
from r1_router.methods.work import Work
from r1_router.prompts import Prompt, PromptSet, load_prompts
from r1_router.prompts.released import released_texts
from r1_router.replies import NULL, BadReply
from r1_router.synthesis.check import check_rows
from r1_router.synthesis.filters import FILTERS
from r1_router.synthesis.rows import step_row
from r1_router.synthesis.teacher import TRIES, dropped, parse_teacher_answer, parse_teacher_plan, teacher
from r1_router.types import NONE, PUBLISHED_SOURCES, Answer, Question
from test_methods import finished, shelves

SHARED = Path(__file__).parents[1].parent / "shared"
GOLDEN = SHARED / "golden"
STEPS = SHARED / "datasets" / "grpo_dataset_valid_new.jsonl"


def golden(name: str) -> list[Any]:
    path = GOLDEN / name
    if not path.is_file():
        pytest.skip(f"{path} is not here")
    return list(jsonl.read(path))


def published_layout() -> PromptSet:
    """The released wording around placeholders for the system texts, as the golden rows have it."""
    if not STEPS.is_file():
        pytest.skip(f"{STEPS} is not here")
    texts = released_texts(list(jsonl.read(STEPS)))
    return PromptSet(
        "golden",
        router=Prompt("<<router_system_step_data>>"),
        answer=Prompt("<<answer_system>>"),
        final=Prompt("<<final_answer_system>>"),
        direct=Prompt(""),
        cot=Prompt(""),
        reminder="",
        final_request=texts["final_request"],
        answer_request=texts["answer_request"],
    )


def question_of(record: dict[str, Any]) -> Question:
    image = f"<images>/oven_images/{record['image_id']}.jpg" if "image_id" in record else None
    gold = record.get("answer_eval", record["answer"])
    extra = {"answer": record["answer"]} if "answer_eval" in record else {}
    return Question("q", record["question"], gold, image=image, extra=extra)


def unspaced(value: Any) -> Any:
    """All white space taken out: the reference keeps newlines around sub-questions and answers, which go here."""
    if isinstance(value, str):
        return "".join(value.split())
    if isinstance(value, list):
        return [unspaced(item) for item in value]
    return {key: unspaced(item) for key, item in value.items()} if isinstance(value, dict) else value


def test_rollouts_become_the_references_rows() -> None:
    prompts = published_layout()
    outcomes, rows = [], []
    for record in golden("synthesis_to_steps.jsonl"):
        llm = ScriptedLLM(record["script"])
        question = question_of(record["record"])
        trajectory = finished(teacher(Settings(prompts))(question, llm, shelves()))
        assert len(llm.calls) == len(record["calls"]), record["name"]
        kept = FILTERS["recall"].keeps(trajectory)
        assert kept == record["kept_by_filter"], record["name"]
        assert (dropped(trajectory, 3) is None) == (record["final_recall"] is not None)
        if kept:
            row = step_row(trajectory, prompts, PUBLISHED_SOURCES, 5)
            form = unspaced if record["name"] == "untrimmed" else dict  # the one golden row with padded replies
            assert form(row) == form(record["step_row"]), record["name"]
            rows.append(row)
        outcomes.append(kept)
    assert check_rows(rows).sound
    assert outcomes.count(True) == 9 and outcomes.count(False) == 4


@pytest.mark.parametrize("task", ["synthesis_answer", "synthesis_router_output"])
def test_teacher_replies_are_read_as_the_reference_reads_them(task: str) -> None:
    for row in (row for row in golden("parsing.jsonl") if row["task"] == task):
        if task == "synthesis_answer":
            parsed: Any = parse_teacher_answer(row["input"])
            wanted = Answer("", row["result"]["answer"].strip()) if row["accepted"] else None
        else:
            parsed, wanted = parse_teacher_plan(row["input"], PUBLISHED_SOURCES), None
        assert isinstance(parsed, BadReply) != row["accepted"], (row["kind"], row["input"])
        if wanted is not None:
            assert parsed == wanted, row["kind"]


@pytest.mark.parametrize("task", ["synthesis_extract", "synthesis_extract_lowercased", "combine_extract"])
def test_a_plan_says_what_the_reference_takes_from_it(task: str) -> None:
    """Known retrievers and both or neither none: what the reference takes from others, it refuses in the next step."""
    read = 0
    for row in (row for row in golden("parsing.jsonl") if row["task"] == task):
        plan = parse_teacher_plan(row["input"], PUBLISHED_SOURCES)
        if row["accepted"] and not isinstance(plan, BadReply) and NULL not in row["input"]:
            names = [name.strip().lower() for name in row["result"]["retriever"]]
            assert plan.query == row["result"]["query"].lower().strip(), row["kind"]
            assert [source.name for source in plan.sources] == [name for name in dict.fromkeys(names) if name != NONE]
            read += 1
        elif not row["accepted"] and row["kind"] != "upper":  # one of the three does not lower the case of tags
            assert isinstance(plan, BadReply), row["kind"]
    assert read >= 15


@pytest.mark.parametrize("task", ["synthesis_router_retry", "synthesis_answer_retry"])
def test_malformed_replies_are_asked_for_again_as_often_as_the_reference_does(task: str) -> None:
    parse: Any = parse_teacher_answer
    if task == "synthesis_router_retry":
        parse = partial(parse_teacher_plan, sources=PUBLISHED_SOURCES)
    for row in (row for row in golden("parsing.jsonl") if row["task"] == task):
        llm = ScriptedLLM(row["inputs"])
        work = Work(Question("q", "Who?"), llm, {}, Settings(load_prompts("trained")))
        messages = [{"role": "user", "content": "Who?"}]
        parsed = asyncio.run(parsed_reply(work, messages, parse, TRIES))
        assert (parsed is not None) == row["result"][1] and len(llm.calls) == row["calls"]
        assert len({(call.messages[0]["content"], len(call.messages)) for call in llm.calls}) == 1
