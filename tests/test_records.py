"""Trajectories as published records: written, read back, and the reference's own records read."""

import json
from pathlib import Path
from typing import Any

import pytest

from r1_router import jsonl
from r1_router.errors import DataError
from r1_router.records import question_from_json, question_to_json
from r1_router.types import IMAGE, TABLE, TEXT, Answer, Passage, Plan, Question, Source, Step, Trajectory, Usage

GOLDEN = Path(__file__).parents[1].parent / "shared" / "golden" / "trajectory_messages.jsonl"

QUESTION = Question("q1", "How tall is it?", ["5 m"], "factbook", "queries/q1.png", {"hops": [1, 2], "kind": "fact"})
ASKED = Step(
    Plan("find the place", "which place?", (IMAGE, TABLE)),
    (
        Passage("flags/fr", "France, a flag", 0.75, IMAGE),
        Passage("flags/it", "Italy, a flag", 0.5, IMAGE),
        Passage("table/fr/1", "France: height", 12.5, TABLE),
    ),
    Answer("the first", "france"),
)
STOP = Step(Plan("all is known", "none"))
WHOLE = Trajectory(QUESTION, (ASKED, STOP), Answer("so", "5 m"), Usage(4, 1, 0, 300, 40, 1.5))


def through_json(trajectory: Trajectory) -> Trajectory:
    return Trajectory.from_json(json.loads(json.dumps(trajectory.to_json())))


@pytest.mark.parametrize(
    "trajectory",
    [
        WHOLE,
        Trajectory(QUESTION, (ASKED, ASKED, ASKED), Answer("", "")),
        Trajectory(QUESTION, (ASKED,), error="the engine gave no reply"),
        Trajectory(QUESTION, (Step(Plan("t", "", (TEXT,))),), Answer("", "x")),
        Trajectory(QUESTION, (Step(Plan("t", "nothing found?", (TEXT,)), (), Answer("", "no")),), Answer("", "x")),
        Trajectory(Question("i_7", "q", [{"range": [1, 2]}], extra={"data_id": "i_7", "answer": ["1-2"]})),
        Trajectory(Question("", "asked by hand", [])),
    ],
)
def test_a_written_trajectory_reads_back_whole(trajectory: Trajectory) -> None:
    assert through_json(trajectory) == trajectory


def test_the_record_has_the_published_form() -> None:
    record = WHOLE.to_json()
    assert record["plan_0"]["retriever"] == ["text image retriever", "table retriever"]
    assert record["plan_0"]["tir"] == ["France, a flag", "Italy, a flag"]
    assert record["plan_0"]["tar"] == ["France: height"]
    assert record["plan_0"]["passage_ids"]["tir"] == ["flags/fr", "flags/it"]
    nothing = {"thought": "", "answer": ""}
    assert record["plan_1"] == {"thought": "all is known", "query": "none", "retriever": ["none"], "answer": nothing}
    assert record["plan_2"] == {"query": "none", "retriever": ["none"], "answer": nothing}
    assert record["llm_answer"] == {"thought": "so", "answer": "5 m"}
    assert "plan_0" not in Trajectory(QUESTION, answer=Answer("", "direct")).to_json()


@pytest.mark.skipif(not GOLDEN.is_file(), reason="the golden data (../shared/golden) is not here")
def test_the_references_records_are_written_as_they_were_read() -> None:
    for row in jsonl.read(GOLDEN):
        record = row["output_record"]
        if record is None:
            continue
        for plan in (record[key] for key in record if key.startswith("plan_")):
            for tag in {"ter", "tir", "tar"} & plan.keys():
                plan[tag] = [f"passage {number}" for number in range(int(plan[tag].split()[0]))]
        assert published_keys(Trajectory.from_json(record).to_json()) == once_each(record), row["name"]


def published_keys(record: dict[str, Any]) -> dict[str, Any]:
    """The record without the ids and scores that the reference does not write."""
    added = ("passage_ids", "passage_scores")
    return {
        key: {k: v for k, v in value.items() if k not in added} if key.startswith("plan_") else value
        for key, value in record.items()
    }


def once_each(record: dict[str, Any]) -> dict[str, Any]:
    """The record with each source named once and no `none` beside a source, which is all that a Plan keeps."""
    for key in record:
        if key.startswith("plan_"):
            names = [name for name in dict.fromkeys(record[key]["retriever"]) if name != "none"]
            record[key]["retriever"] = names or ["none"]
    return record


@pytest.mark.parametrize(
    "row",
    [
        {"question": "q", "answer": "a"},
        {"question": "q", "question_id": "en1", "answer": ["a", 3], "gloden_query": "x", "image_id": 1},
        {"data_id": "i_1", "image_id": "o_1", "question": "q", "answer": ["a"], "answer_eval": ["a", "b"]},
    ],
)
def test_a_published_row_is_untouched(row: dict[str, Any]) -> None:
    assert question_to_json(question_from_json(row)) == row


def test_infoseek_is_scored_on_its_evaluation_answers() -> None:
    row = {"question": "q", "answer": ["shown"], "answer_eval": ["scored"]}
    assert question_from_json(row).answers == ["scored"]


def test_own_sources_are_read_by_name_and_an_unknown_one_is_refused() -> None:
    code = Source("code retriever", "cor", "source code")
    record = Trajectory(QUESTION, (Step(Plan("t", "q", (code,)), (Passage("m", "main", 1.0, code),)),)).to_json()
    assert Trajectory.from_json(record, (code,)).steps[0].passages == (Passage("m", "main", 1.0, code),)
    with pytest.raises(DataError, match=r"plan_0\.retriever.*code retriever"):
        Trajectory.from_json(record)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ({"answer": "a"}, "question"),
        ({"question": "q", "llm_answer": 3}, "llm_answer"),
        ({"question": "q", "plan_0": "none"}, "plan_0"),
        ({"question": "q", "plan_0": {"query": "x", "retriever": ["text retriever"], "ter": "10"}}, r"plan_0\.ter"),
        ({"question": "q", "usage": {"tokens": 3}}, "usage"),
    ],
)
def test_a_broken_record_is_refused_by_key(broken: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        Trajectory.from_json(broken)
