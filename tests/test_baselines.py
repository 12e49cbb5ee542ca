"""Baselines that retrieve more than once: what each calls, sees, searches and keeps, reply by reply."""

from __future__ import annotations

import random
from typing import Any

import pytest

from r1_router.errors import DataError
from r1_router.llm.content import text_of
from r1_router.llm.scripted import ScriptedLLM
from r1_router.methods.ircot import first_sentence
from r1_router.methods.omnisearch import parse_lead
from r1_router.methods.search_o1 import Turn, parse_turn
from r1_router.methods.self_ask import parse_follow_up
from r1_router.replies import BadReply
from r1_router.summary import summarise
from r1_router.types import IMAGE, PUBLISHED_SOURCES, TABLE, TEXT, Answer, Plan, Question, Source, Trajectory
from test_methods import GOOD_ANSWER, GOOD_PLAN, STOP, lines_of, run, shelves

QUESTION = Question("q", "Which Town?", ["Oslo"])
ALL = PUBLISHED_SOURCES


def hops(*sources: Source) -> Question:
    """A question whose gold hops ask these sources, and then stop."""
    gold = [{"source": source.name, "gold_ids": [f"{source.tag}0"]} for source in sources]
    return Question("q", "Which Town?", ["Oslo"], extra={"hops": [*gold, {"source": "none"}]})


def asked(trajectory: Trajectory) -> list[tuple[str, tuple[Source, ...]]]:
    return [(step.plan.query, step.plan.sources) for step in trajectory.steps if not step.plan.stops]


def last(llm: ScriptedLLM, call: int) -> str:
    return text_of(llm.calls[call].messages[-1])


def answer_of(trajectory: Trajectory) -> str:
    assert trajectory.answer is not None
    return trajectory.answer.text


def test_ircot_searches_its_last_sentence_and_reads_all_that_was_shown() -> None:
    llm = ScriptedLLM(["Harald lived in Oslo. He was king.", "So the answer is: Oslo", GOOD_ANSWER.format("Oslo")])
    found = shelves()
    trajectory = run("ircot", QUESTION, llm, found, shown=2)
    assert asked(trajectory) == [("Which Town?", ALL), ("Harald lived in Oslo.", ALL)]
    assert [query.text for query in found[TEXT].queries] == ["which town?", "harald lived in oslo."]
    assert last(llm, 1).endswith("Thoughts: Harald lived in Oslo.")
    shown = lines_of(llm.calls[2].messages[-1])[1]
    assert len(shown) == 2 * 2 * 3 and shown[0].startswith("ter-0: ") and shown[3].startswith("ter-3: ")
    assert answer_of(trajectory) == "oslo"


def test_ircot_stops_at_the_cap_and_shows_a_passage_found_twice_once() -> None:
    llm = ScriptedLLM(["which town?", "which town?", "which town?", GOOD_ANSWER.format("x")])
    trajectory = run("ircot", QUESTION, llm, shelves(), shown=2)
    assert len(trajectory.steps) == 3
    assert len(lines_of(llm.calls[3].messages[-1])[1]) == 2 * 3


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("A is in B. More.", "A is in B."),
        (" No end", "No end"),
        ("U.S.A. is big. So.", "U.S.A."),
        ("", ""),
        ("Hm?\nx", "Hm?"),
    ],
)
def test_first_sentence(text: str, sentence: str) -> None:
    assert first_sentence(text) == sentence


def test_iter_retgen_searches_its_whole_draft_with_the_question() -> None:
    drafts = [
        "<think>It is Oslo</think><answer>Oslo</answer>",
        GOOD_ANSWER.format("Bergen"),
        GOOD_ANSWER.format("Moss"),
    ]
    llm = ScriptedLLM(drafts)
    trajectory = run("iter-retgen", QUESTION, llm, shelves(), shown=1)
    assert [query for query, _ in asked(trajectory)] == [
        "Which Town?",
        "it is oslo oslo Which Town?",
        "t bergen Which Town?",
    ]
    assert [len(lines_of(call.messages[-1])[1]) for call in llm.calls] == [3, 3, 3]
    assert answer_of(trajectory) == "moss"


def test_self_ask_adds_each_answer_to_the_text_till_the_final_one() -> None:
    llm = ScriptedLLM(["Follow up: Who is king?", GOOD_ANSWER.format("Harald"), "So the final answer is: Oslo."])
    trajectory = run("self-ask", QUESTION, llm, shelves())
    assert asked(trajectory) == [("Who is king?", ALL)]
    assert last(llm, 2) == "Question: Which Town?\nFollow up: Who is king?\nIntermediate answer: harald"
    assert answer_of(trajectory) == "oslo." and trajectory.usage.calls == 3


def test_self_ask_concludes_at_the_cap() -> None:
    turn = ["Follow up: Who?", GOOD_ANSWER.format("Harald")]
    trajectory = run("self-ask", QUESTION, ScriptedLLM([*turn * 3, GOOD_ANSWER.format("Oslo")]), shelves())
    assert len(trajectory.steps) == 3 and answer_of(trajectory) == "oslo"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Yes.\nFollow up: Who?\nIntermediate answer: x", "Who?"),
        ("So the final answer is Oslo", Answer("", "oslo")),
        ("follow-up: A?\nSo the final answer is: B", "A?"),
        ("So the final answer is: B\nFollow up: A?", Answer("", "b")),
    ],
)
def test_parse_follow_up(text: str, said: object) -> None:
    assert parse_follow_up(text) == said


def test_search_o1_reads_notes_and_not_passages() -> None:
    llm = ScriptedLLM(["I need it. <search>king</search> junk", "Harald is.", "So <answer>Oslo</answer>"])
    trajectory = run("search-o1", QUESTION, llm, shelves(), shown=1)
    assert asked(trajectory) == [("king", ALL)] and trajectory.steps[0].plan.thought == "I need it."
    assert len(lines_of(llm.calls[1].messages[-1])[1]) == 3 and last(llm, 1).endswith("Search query: king")
    assert last(llm, 2) == (
        "Question: Which Town?\nReasoning: I need it. <search>king</search>\n<result>Harald is.</result>"
    )
    assert answer_of(trajectory) == "oslo"


@pytest.mark.parametrize(
    ("text", "turn"),
    [
        ("so <search>a b</search> <answer>c</answer>", Turn("so", "a b", False)),
        ("<SEARCH>a", Turn("", "a", False)),
        ("t <answer> c </answer>", Turn("t", "c", True)),
    ],
)
def test_parse_turn(text: str, turn: Turn) -> None:
    assert parse_turn(text) == turn
    assert isinstance(parse_turn("neither"), BadReply)
    assert isinstance(parse_turn("<search></search>"), BadReply)


def test_cogplanner_plans_from_the_pool_and_answers_from_it() -> None:
    script = [GOOD_PLAN.format("king?", "text retriever"), GOOD_PLAN.format("flag?", "text image retriever"), STOP]
    llm = ScriptedLLM([*script, GOOD_ANSWER.format("Oslo")])
    trajectory = run("cogplanner", QUESTION, llm, shelves(), shown=2)
    assert asked(trajectory) == [("king?", (TEXT,)), ("flag?", (IMAGE,))] and trajectory.steps[-1].plan.stops
    assert last(llm, 0) == "Question: Which Town?\nQueries used: none"
    assert last(llm, 2).endswith("Queries used: king?; flag?")
    tags = [line[:5] for line in lines_of(llm.calls[3].messages[-1])[1]]
    assert tags == ["ter-0", "ter-1", "tir-0", "tir-1"]


def test_omnisearch_may_answer_in_the_place_of_a_plan() -> None:
    llm = ScriptedLLM(
        [GOOD_PLAN.format("king?", "table retriever"), GOOD_ANSWER.format("h"), GOOD_ANSWER.format("Oslo")]
    )
    trajectory = run("omnisearch", QUESTION, llm, shelves())
    assert asked(trajectory) == [("king?", (TABLE,))] and trajectory.steps[-1].plan.stops
    assert "Sub-question1: king?\nAnswer1: h" in last(llm, 2)
    assert answer_of(trajectory) == "oslo" and trajectory.usage.calls == 3


def test_omnisearch_takes_a_plan_before_an_answer_in_one_reply() -> None:
    both = GOOD_PLAN.format("a?", "text retriever") + "<answer>b</answer>"
    assert isinstance(parse_lead(both, ALL), Plan)
    assert isinstance(parse_lead("neither", ALL), BadReply)


def test_adaptive_searches_the_question_where_the_first_plan_says() -> None:
    llm = ScriptedLLM([GOOD_PLAN.format("king?", "table retriever"), GOOD_ANSWER.format("Oslo")])
    found = shelves()
    trajectory = run("adaptive", QUESTION, llm, found)
    assert asked(trajectory) == [("Which Town?", (TABLE,))]
    assert [query.text for query in found[TABLE].queries] == ["which town?"] and found[TEXT].queries == []
    alone = run("adaptive", QUESTION, ScriptedLLM([STOP, GOOD_ANSWER.format("Oslo")]), shelves())
    assert asked(alone) == [] and answer_of(alone) == "oslo"


def routed_script(*queries: str) -> ScriptedLLM:
    steps = [[GOOD_PLAN.format(query, "text retriever"), GOOD_ANSWER.format("h")] for query in queries]
    return ScriptedLLM([*(reply for step in steps for reply in step), STOP, GOOD_ANSWER.format("Oslo")])


def test_random_route_draws_the_same_sources_in_every_run_and_all_of_them_over_many() -> None:
    def sources(ident: str) -> list[Source]:
        trajectory = run("random-route", Question(ident, "Which?"), routed_script("a?", "b?"), shelves())
        return [step.plan.sources[0] for step in trajectory.steps if step.plan.sources]

    assert sources("q1") == sources("q1") and len(sources("q1")) == 2
    drawn = [source for n in range(30) for source in sources(f"q{n}")]
    assert {drawn.count(source) > 10 for source in ALL} == {True}
    random.seed(1)
    assert sources("q1") == sources("q1")


def test_oracle_route_asks_the_gold_sources_and_stops_with_them() -> None:
    trajectory = run("oracle-route", hops(IMAGE), routed_script("a?", "b?"), shelves())
    assert asked(trajectory) == [("a?", (IMAGE,))] and trajectory.steps[-1].plan.stops
    with pytest.raises(DataError, match="gold hops"):
        run("oracle-route", QUESTION, routed_script("a?"), shelves())


@pytest.mark.parametrize(
    ("method", "script", "routing"),
    [
        ("r1-router", [GOOD_PLAN.format("a?", "text retriever"), GOOD_ANSWER.format("h"), STOP], 1.0),
        (
            "omnisearch",
            [GOOD_PLAN.format("a?", "text retriever"), GOOD_ANSWER.format("h"), GOOD_ANSWER.format("x")],
            1.0,
        ),
        ("cogplanner", [GOOD_PLAN.format("a?", "table retriever"), STOP], 0.5),
        ("adaptive", [GOOD_PLAN.format("a?", "text retriever")], 0.5),
        ("self-ask", ["Follow up: a?", GOOD_ANSWER.format("h"), "The final answer is: x"], None),
        ("ircot", ["The answer is: x"], None),
        ("rag-text", [], None),
    ],
)
def test_only_methods_that_choose_a_source_have_a_routing_accuracy(
    method: str, script: list[str], routing: float | None
) -> None:
    trajectory: Any = run(method, hops(TEXT), ScriptedLLM([*script, GOOD_ANSWER.format("x")]), shelves())
    summary = summarise([trajectory], benchmark="b", method=method, model="m", seconds_per_question=None)
    assert summary["routing_accuracy"] == routing
    assert bool(summary["hit_at_5"]) == (routing == 1.0 or method == "adaptive")
