"""Step rows: the prompts of inference, gold completions that parse back, no passage of a held-out country."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from r1_router.factbook.splits import country_names, passages_outside, place_names, region_names
from r1_router.prompts import answer_messages, load_prompts, route_messages
from r1_router.replies import BadReply, parse_answer, parse_plan
from r1_router.training.steps import StepMaker, text_question
from r1_router.training.swaps import Swapper
from r1_router.types import PUBLISHED_SOURCES, Passage, Query, Source

WORLD = Path(__file__).parents[1] / "datasets" / "factbook"
FORBIDDEN = "text/be/capital/0"


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    lines = (WORLD / "questions_train.jsonl").read_text("utf-8").splitlines()[:200]
    return [json.loads(line) for line in lines]


def search_with(rows: Sequence[dict[str, Any]], *, gold: bool) -> Any:
    """A search that puts a forbidden passage first, then (if `gold`) every passage that answers the query."""
    wanted = {hop["query"]: hop["gold_ids"] for row in rows for hop in row["hops"] if "gold_ids" in hop}

    def search(source: Source, queries: Sequence[Query]) -> list[list[Passage]]:
        return [
            [Passage(ident, f"text of {ident}", 1.0, source) for ident in [FORBIDDEN, "text/us/climate/0", *found]]
            for found in (wanted.get(query.text, []) if gold else [] for query in queries)
        ]

    return search


def maker(rows: Sequence[dict[str, Any]], *, gold: bool = True, lower_case: bool = False) -> StepMaker:
    search, forbidden = search_with(rows, gold=gold), passages_outside("train")
    swapper = Swapper(country_names(texts(), "train"), region_names("train"), place_names(rows))
    return StepMaker(load_prompts("trained"), PUBLISHED_SOURCES, search, 3, forbidden, swapper, lower_case)


def texts() -> list[dict[str, Any]]:
    return [json.loads(line) for line in (WORLD / "kb" / "text.jsonl").read_text("utf-8").splitlines()]


def test_every_completion_parses_back(rows: list[dict[str, Any]]) -> None:
    made = maker(rows).router_rows(rows, 0)
    kinds = {row["step_type"] for row in made}
    assert kinds == {"ret", "ans", "final"}
    for row in made:
        reply = row["completion"]
        parsed = parse_plan(reply, PUBLISHED_SOURCES) if row["step_type"] == "ret" else parse_answer(reply)
        assert not isinstance(parsed, BadReply), (row, parsed)


def test_prompts_are_those_of_inference(rows: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("r1_router.training.steps.SWAP_SHARE", 0.0)
    prompts = load_prompts("trained")
    by_id = {row["id"]: row for row in rows}
    made = maker(rows).router_rows(rows, 0)
    firsts = [row for row in made if row["step_type"] == "ret" and "Sub-question1" not in row["messages"][1]["content"]]
    assert firsts
    for row in firsts:
        assert row["messages"] == route_messages(prompts, text_question(by_id[row["id"]]), [], PUBLISHED_SOURCES)


def test_answer_rows_point_at_the_gold_passage_and_show_nothing_forbidden(rows: list[dict[str, Any]]) -> None:
    answers = [row for row in maker(rows).router_rows(rows, 0) if row["step_type"] == "ans"]
    assert answers
    for row in answers:
        assert FORBIDDEN not in row["messages"][1]["content"]
        label = row["completion"].removeprefix("<think>").split()[0]
        shown = next(line for line in row["messages"][1]["content"].splitlines() if line.startswith(f"{label}:"))
        assert "us/climate" not in shown


def test_lower_case_questions_stand_as_the_model_will_read_them(rows: list[dict[str, Any]]) -> None:
    upper = maker(rows).rag_rows(rows, 0)
    made = maker(rows, lower_case=True).rag_rows(rows, 0)
    by_id = {row["id"]: row["question"] for row in rows}
    for row, same in zip(made, upper, strict=True):
        assert row["messages"][1]["content"].endswith(f"Question: {by_id[row['id']].lower()}")
        assert row["completion"] == same["completion"]
    routed = maker(rows, lower_case=True).router_rows(rows, 0)
    origins = [row["messages"][1]["content"].splitlines()[0] for row in routed if row["step_type"] != "ans"]
    assert origins and all(line.removeprefix("Origin question:").islower() for line in origins)


def test_some_questions_give_two_different_routing_steps(
    rows: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("r1_router.training.steps.SWAP_SHARE", 0.0)
    routed = [row for row in maker(rows).router_rows(rows, 0) if row["step_type"] == "ret"]
    prompts = {(row["id"], row["messages"][1]["content"]) for row in routed}
    assert len(rows) * 1.3 < len(routed) < len(rows) * 1.7
    assert len(prompts) == len(routed)


def test_without_the_gold_passage_there_is_no_answer_row(rows: list[dict[str, Any]]) -> None:
    kinds = {row["step_type"] for row in maker(rows, gold=False).router_rows(rows, 0)}
    assert "ans" not in kinds and "ret" in kinds


def test_the_same_seed_gives_the_same_rows(rows: list[dict[str, Any]]) -> None:
    assert maker(rows).router_rows(rows, 3) == maker(rows).router_rows(rows, 3)
    assert maker(rows).router_rows(rows, 3) != maker(rows).router_rows(rows, 4)


def test_rag_rows_ask_the_whole_question(rows: list[dict[str, Any]]) -> None:
    made = maker(rows).rag_rows(rows, 0)
    by_id = {row["id"]: row for row in rows}
    assert len(made) == len(rows)
    for row in made:
        question = by_id[row["id"]]
        assert question["question"] in row["messages"][1]["content"]
        parsed = parse_answer(row["completion"])
        assert not isinstance(parsed, BadReply) and parsed.text == str(question["answers"][0]).lower()


def test_passages_outside_train() -> None:
    outside = passages_outside("train")
    assert outside("text/be/capital/0") and outside("image/fj") and outside("table/growth/the-sahel/2023")
    assert not outside("text/us/capital/0") and not outside("table/growth/north-america/2023")
    assert not outside("table/growth/world-ranking/2023/4")


def test_answer_prompt_is_that_of_inference(rows: list[dict[str, Any]]) -> None:
    row = next(row for row in maker(rows).router_rows(rows, 0) if row["step_type"] == "ans")
    lines = row["messages"][1]["content"].splitlines()
    query = lines[-1].removeprefix("Question: ")
    source = next(source for source in PUBLISHED_SOURCES if lines[0].startswith(source.tag))
    passages = [Passage("", line.split(": ", 1)[1], 0.0, source) for line in lines if line.startswith(source.tag)]
    assert row["messages"] == answer_messages(load_prompts("trained"), Query(query), passages)


def test_swapped_names_are_the_same_throughout_a_row_and_keep_their_case() -> None:
    swapper = Swapper(["Fiji", "New Fiji"], ["East Asia"], ["Suva", "Nadi", "Lautoka"])
    row = {
        "messages": [{"role": "system", "content": "Fiji"}, {"role": "user", "content": "Fiji, New Fiji in East Asia"}],
        "completion": "the fiji of new fiji, Fijian",
    }
    for seed in range(20):
        made = swapper.swapped(row, random.Random(seed))
        user, completion = made["messages"][1]["content"], made["completion"]
        assert made["messages"][0]["content"] == "Fiji"
        first, rest = user.split(", ", 1)
        second = rest.split(" in ")[0]
        assert first != second
        assert completion == f"the {first.lower()} of {second.lower()}, Fijian"
        assert "fiji" not in user.lower() and "east asia" not in user.lower()


def test_about_half_of_the_rows_are_swapped(rows: list[dict[str, Any]]) -> None:
    made = maker(rows).router_rows(rows, 0)
    known = re.compile("|".join(rf"\b{re.escape(name)}\b" for name in country_names(texts(), "train")), re.IGNORECASE)
    named = [row for row in made if known.search(row["completion"])]
    assert 0.3 < len(named) / len(made) < 0.9
