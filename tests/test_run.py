"""Runs over many questions: resume, torn files, failures, order, notes."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from background import heeding_ctrl_c
from r1_router import jsonl
from r1_router.errors import ConfigError, DataError, EngineError, KnowledgeBaseDown
from r1_router.llm.scripted import ScriptedLLM
from r1_router.methods import Settings, make_method
from r1_router.prompts import load_prompts
from r1_router.results import RunNote, Shard, merge_shards, open_note, read_note, result_path, write_note
from r1_router.run import Progress, run_questions
from r1_router.types import LLM, TABLE, TEXT, Answer, Passage, Query, Question, Retriever, Sampling, Source, Trajectory

PLAN = "<think>t</think><sub-question>who?</sub-question><ret>text retriever</ret>"
STOP = "<think>t</think><sub-question>none</sub-question><ret>none</ret>"
ANSWER = "<think>t</think><answer>Oslo</answer>"
QUESTIONS = [Question(f"q{n}", f"Question {n}?", ("oslo",), "bench", extra={"kind": "k"}) for n in range(20)]


class OnePassage:
    async def search(self, query: Query, k: int) -> list[Passage]:
        return [Passage("p", "text", 1.0, TEXT)]


SHELVES: dict[Source, Retriever] = {TEXT: OnePassage(), TABLE: OnePassage()}


def reply(messages: Any) -> str:
    """A two-step loop: plan, answer, stop, final answer."""
    if "<ret>" not in messages[0]["content"] and "retriever" not in messages[0]["content"]:
        return ANSWER
    return STOP if "Answer1" in messages[-1]["content"] else PLAN


def run(path: Path, llm: LLM, **options: Any) -> Any:
    method = make_method("r1-router", Settings(load_prompts("trained")))
    return run_questions(method, QUESTIONS, llm, SHELVES, path=path, **options)


def test_answers_come_in_question_order_and_stand_in_the_file(tmp_path: Path) -> None:
    seen: list[Progress] = []
    outcome = run(tmp_path / "r.jsonl", ScriptedLLM(reply), on_progress=seen.append, concurrency=7)
    assert [item.question.id for item in outcome.trajectories] == [question.id for question in QUESTIONS]
    records = list(jsonl.read(tmp_path / "r.jsonl"))
    assert {record["id"] for record in records} == {question.id for question in QUESTIONS}
    assert records[0]["llm_answer"] == {"thought": "t", "answer": "oslo"}
    assert records[0]["plan_0"]["ter"] == ["text"] and records[0]["plan_2"]["retriever"] == ["none"]
    assert sorted({progress.done for progress in seen}) == list(range(21))
    assert max(progress.in_flight for progress in seen) == 7 and seen[-1].in_flight == 0
    assert (seen[-1].calls, seen[-1].malformed) == (4 * 20, 0)
    assert not outcome.interrupted and outcome.progress.errors == 0


def test_resumes_after_a_cut_file(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    whole = run(path, ScriptedLLM(reply)).trajectories
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * 2 // 3])
    left = data[: len(data) * 2 // 3].count(b"\n")
    llm = ScriptedLLM(reply)
    outcome = run(path, llm)
    assert 0 < left < 20 and outcome.progress.resumed == left
    assert len(llm.calls) == 4 * (20 - left)
    assert len(list(jsonl.read(path))) == 20
    assert [t.answer for t in outcome.trajectories] == [t.answer for t in whole]
    assert [t.steps for t in outcome.trajectories] == [t.steps for t in whole]


def test_a_failing_question_is_recorded_and_tried_again(tmp_path: Path) -> None:
    def fails_for_q3(messages: Any) -> str:
        if "Question 3?" in messages[-1]["content"]:
            raise EngineError("the server fell over")
        return reply(messages)

    path = tmp_path / "r.jsonl"
    outcome = run(path, ScriptedLLM(fails_for_q3))
    assert outcome.progress.errors == 1
    assert outcome.trajectories[3].error == "EngineError: the server fell over"
    assert sum("error" in record for record in jsonl.read(path)) == 1
    llm = ScriptedLLM(reply)
    again = run(path, llm)
    assert len(llm.calls) == 4 and again.trajectories[3].error is None
    assert len(list(jsonl.read(path))) == 20 and not any("error" in record for record in jsonl.read(path))


def test_a_question_answered_while_a_base_was_down_is_tried_again(tmp_path: Path) -> None:
    class Down:
        async def search(self, query: Query, k: int) -> list[Passage]:
            raise KnowledgeBaseDown("no answer")

    path, method = tmp_path / "r.jsonl", make_method("r1-router", Settings(load_prompts("trained")))
    shelves: dict[Source, Retriever] = {TEXT: Down(), TABLE: Down()}
    without = run_questions(method, QUESTIONS, ScriptedLLM(reply), shelves, path=path)
    assert all(item.answer and item.usage.unanswered == 1 for item in without.trajectories)
    again = run_questions(method, QUESTIONS[:2], ScriptedLLM(reply), SHELVES, path=path)
    assert again.progress.resumed == 0 and not any(item.usage.unanswered for item in again.trajectories)
    assert sum(record["usage"]["unanswered"] for record in jsonl.read(path)) == 18  # the others were not asked for
    assert run_questions(method, QUESTIONS[:2], ScriptedLLM([]), SHELVES, path=path).progress.resumed == 2


def test_a_question_whose_text_changed_is_answered_anew(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    run(path, ScriptedLLM(reply))
    records = list(jsonl.read(path))
    records[4]["question"] = "Another?"
    jsonl.rewrite(path, records)
    llm = ScriptedLLM(reply)
    assert run(path, llm).progress.resumed == 19 and len(llm.calls) == 4


def test_records_of_other_questions_stay(tmp_path: Path) -> None:
    """So a short run with --limit does not cost a long one its results."""
    path = tmp_path / "r.jsonl"
    run(path, ScriptedLLM(reply))
    method = make_method("r1-router", Settings(load_prompts("trained")))
    outcome = run_questions(method, QUESTIONS[:2], ScriptedLLM([]), SHELVES, path=path)
    assert len(outcome.trajectories) == 2 and len(list(jsonl.read(path))) == 20


def test_no_more_than_the_bound_are_in_flight(tmp_path: Path) -> None:
    now, most = 0, 0

    async def slow(question: Question, llm: LLM, retrievers: Mapping[Source, Retriever]) -> Trajectory:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.001)
        now -= 1
        return Trajectory(question, answer=Answer("", "x"))

    run_questions(slow, QUESTIONS, ScriptedLLM([]), SHELVES, path=tmp_path / "r.jsonl", concurrency=5)
    assert most == 5


def test_ctrl_c_keeps_what_is_done(tmp_path: Path) -> None:
    async def stuck_after_five(question: Question, llm: LLM, retrievers: Mapping[Source, Retriever]) -> Trajectory:
        if question.id == "q5":  # by then the loop runs: an earlier signal would hit the test, not the run
            asyncio.get_running_loop().call_later(0.1, signal.raise_signal, signal.SIGINT)
        if int(question.id[1:]) >= 5:
            await asyncio.sleep(60)
        return Trajectory(question, answer=Answer("", "x"))

    started = time.perf_counter()
    with heeding_ctrl_c():
        outcome = run_questions(stuck_after_five, QUESTIONS, ScriptedLLM([]), SHELVES, path=tmp_path / "r.jsonl")
    assert time.perf_counter() - started < 10
    assert outcome.interrupted and len(outcome.trajectories) == 5
    assert len(list(jsonl.read(tmp_path / "r.jsonl"))) == 5


def test_a_disk_that_fails_is_an_error_with_the_path(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"

    async def fills_the_disk(question: Question, llm: LLM, retrievers: Mapping[Source, Retriever]) -> Trajectory:
        path.unlink(missing_ok=True)
        path.mkdir(exist_ok=True)
        return Trajectory(question)

    with pytest.raises(DataError, match=r"r\.jsonl: cannot be written"):
        run_questions(fills_the_disk, QUESTIONS, ScriptedLLM([]), SHELVES, path=path)


@pytest.mark.parametrize("ids", [("a", "a"), ("", "b")])
def test_ids_must_tell_questions_apart(tmp_path: Path, ids: tuple[str, str]) -> None:
    questions = [Question(id_, "?") for id_ in ids]
    with pytest.raises(DataError, match="empty or not unique"):
        run_questions(_never, questions, ScriptedLLM([]), SHELVES, path=tmp_path / "r.jsonl")


async def _never(question: Question, llm: LLM, retrievers: Mapping[Source, Retriever]) -> Trajectory:
    raise AssertionError("not to be called")


def test_results_of_other_settings_are_not_resumed(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text("{}\n")
    write_note(path, RunNote({"adapter": "a", "shown": (5, 3)}, 10, 25.0))
    assert open_note(path, {"adapter": "a", "shown": (5, 3)}).seconds_per_question == 2.5
    with pytest.raises(ConfigError, match=r"\(adapter\); --fresh"):
        open_note(path, {"adapter": "b", "shown": (5, 3)})
    assert open_note(path, {"adapter": "b"}, replace_others=True).answered == 0
    assert not path.exists()
    assert read_note(tmp_path / "r.1.jsonl").answered == 10


def test_shards_put_aside_are_not_joined_and_a_whole_of_other_settings_is_put_aside(tmp_path: Path) -> None:
    whole = tmp_path / "b_m.jsonl"
    path = Shard(1, 1).path(whole)
    for made, settings in ((path, {"seed": 0}), (whole, {"seed": 0}), (path, {"seed": 1})):
        note = open_note(made, settings, replace_others=True)
        run(made, ScriptedLLM(reply))
        write_note(made, replace(note, answered=20))
    assert sorted(part.name for part in path.parent.glob("*.jsonl")) == ["b_m.1-of-1.1.jsonl", "b_m.1-of-1.jsonl"]
    assert merge_shards(whole, QUESTIONS, (TEXT, TABLE)) == 0
    assert read_note(whole) == RunNote({"seed": 1}, 20)
    assert (tmp_path / "b_m.1.jsonl").is_file() and read_note(tmp_path / "b_m.1.jsonl") == RunNote({"seed": 0}, 20)


def test_merging_keeps_what_the_whole_holds_and_puts_no_failure_over_an_answer(tmp_path: Path) -> None:
    whole, shard = tmp_path / "b_m.jsonl", Shard(1, 4).path(tmp_path / "b_m.jsonl")
    run(whole, ScriptedLLM(reply))
    write_note(whole, RunNote({"seed": 0}, 20, 40.0))
    answered = list(jsonl.read(whole))
    shard.parent.mkdir()
    jsonl.rewrite(shard, [{**answered[0], "error": "EngineError: down"}, answered[4]])
    write_note(shard, RunNote({"seed": 0}, 1, 3.0))
    for _ in range(2):  # and again, to the same file
        assert merge_shards(whole, QUESTIONS, (TEXT, TABLE)) == 0
        assert list(jsonl.read(whole)) == answered
    jsonl.rewrite(whole, answered[1:2])
    assert merge_shards(whole, QUESTIONS, (TEXT, TABLE)) == 17
    assert [record.get("error") for record in jsonl.read(whole)] == ["EngineError: down", None, None]


def test_result_path_stays_in_the_results_folder(tmp_path: Path) -> None:
    assert result_path(tmp_path, "m", "b", "x") == tmp_path / "m" / "b_x.jsonl"
    with pytest.raises(ConfigError, match="file name"):
        result_path(tmp_path, "../m", "b", "x")


def test_the_loop_costs_little_beside_a_model_call(tmp_path: Path) -> None:
    """The loop's own cost per model call; the bound is loose, for a busy machine."""
    questions = [Question(f"q{n}", f"Question {n}?") for n in range(500)]
    method = make_method("r1-router", Settings(load_prompts("trained"), sampling=Sampling()))
    started = time.process_time()
    outcome = run_questions(method, questions, ScriptedLLM(reply), SHELVES, path=tmp_path / "r.jsonl")
    calls = sum(trajectory.usage.calls for trajectory in outcome.trajectories)
    assert calls == 2000
    assert (time.process_time() - started) / calls < 0.002
    assert json.loads((tmp_path / "r.jsonl").read_text().splitlines()[0])["usage"]["calls"] == 4
