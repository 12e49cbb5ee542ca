"""Summaries on trajectories made by hand."""

import json
from pathlib import Path
from typing import Any

from r1_router.summary import hit_rates, summarise, write_summary
from r1_router.types import TABLE, TEXT, Answer, Passage, Plan, Question, Source, Step, Trajectory


def hop(source: Source, *gold_ids: str) -> dict[str, Any]:
    return {"source": source.name, "query": "q", "gold_ids": list(gold_ids), "answer": "a"}


def step(source: Source | None, *ids: str) -> Step:
    sources = (source,) if source else ()
    passages = tuple(Passage(id_, "t", 1.0, source) for id_ in ids) if source else ()
    return Step(Plan("", "q" if source else "none", sources), passages, Answer("", "a"))


def trajectory(hops: list[dict[str, Any]], *steps: Step, answer: str = "Oslo") -> Trajectory:
    question = Question("q", "?", ["Oslo", "City of Oslo"], extra={"hops": hops})
    return Trajectory(question, steps, Answer("", answer))


def test_hits_within_five_of_the_right_source() -> None:
    found = [
        trajectory([hop(TEXT, "g")], step(TEXT, "a", "b", "c", "d", "g", "e")),
        trajectory([hop(TEXT, "g")], step(TEXT, "a", "b", "c", "d", "e", "g")),
        trajectory([hop(TABLE, "x", "y")], step(TABLE, "y")),
        trajectory([hop(TABLE, "x")], step(TEXT, "x")),
        trajectory([hop(TEXT)], step(TEXT, "z")),
    ]
    assert hit_rates(found) == {"table retriever": 1.0, "text retriever": 0.5}


def test_summary_counts_a_failed_question_as_wrong(tmp_path: Path) -> None:
    failed = Trajectory(Question("f", "?", ["x"], extra={"hops": [hop(TEXT)]}), error="EngineError: gone")
    verbose = trajectory([hop(TEXT)], step(TEXT), step(None), answer="it is oslo, i think")
    summary = summarise([verbose, failed], benchmark="b", method="m", model="l", seconds_per_question=1.5)
    assert (summary["n"], summary["errors"], summary["f1_recall"], summary["routing_accuracy"]) == (2, 1, 0.5, 0.5)
    assert 0 < summary["token_f1"] < 0.5 and summary["seconds_per_question"] == 1.5
    write_summary(tmp_path / "b" / "m" / "summary.json", summary)
    assert json.loads((tmp_path / "b" / "m" / "summary.json").read_text()) == summary
