"""The tag grammar against the reference's parses (golden data), and the training targets read back."""

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from r1_router import jsonl
from r1_router.replies import (
    ANSWER_PATTERN,
    BadReply,
    format_answer,
    format_plan,
    parse_answer,
    parse_plan,
    plan_pattern,
)
from r1_router.types import NONE, PUBLISHED_SOURCES, TABLE, TEXT, Answer, Plan, Source

GOLDEN = Path(__file__).parents[1].parent / "shared" / "golden" / "parsing.jsonl"
needs_golden = pytest.mark.skipif(not GOLDEN.is_file(), reason="the golden data (../shared/golden) is not here")
PLAIN = st.text(alphabet="abc xyz?.,' 0123éß", max_size=20).map(str.strip)


def golden(task: str) -> list[dict[str, Any]]:
    return [row for row in jsonl.read(GOLDEN) if row["task"] == task]


def as_published(plan: Plan) -> dict[str, Any]:
    return {"thought": plan.thought, "query": plan.query, "retriever": [source.name for source in plan.sources]}


def expected_plan(result: dict[str, Any]) -> dict[str, Any]:
    """The golden result as a Plan holds it: each source once, `none` as no source, `null` as none (as the loop)."""
    if result["query"] == "null":
        return {**result, "query": NONE, "retriever": []}
    return {**result, "retriever": [name for name in dict.fromkeys(result["retriever"]) if name != NONE]}


@needs_golden
@pytest.mark.parametrize(("task", "single"), [("router_output", False), ("router_output_single_only", True)])
def test_plans_parse_as_the_reference_parses_them(task: str, single: bool) -> None:
    rows = golden(task)
    assert len(rows) > 40
    for row in rows:
        plan = parse_plan(row["input"], PUBLISHED_SOURCES, single=single)
        assert isinstance(plan, Plan) == row["accepted"], row
        if isinstance(plan, Plan):
            assert as_published(plan) == expected_plan(row["result"])


@needs_golden
def test_answers_parse_as_the_reference_parses_them() -> None:
    rows = golden("answer")
    assert len(rows) > 20
    for row in rows:
        answer = parse_answer(row["input"])
        assert isinstance(answer, Answer) == row["accepted"], row
        if isinstance(answer, Answer):
            assert answer.to_json() == row["result"]


def test_a_configured_source_is_known_and_the_others_are_not() -> None:
    code = Source("Code Retriever", "cor", "source code")
    reply = format_plan("t", "where is main?", "code retriever")
    assert parse_plan(reply, [code]) == Plan("t", "where is main?", (code,))
    refused = parse_plan(reply, PUBLISHED_SOURCES)
    assert isinstance(refused, BadReply)
    assert "code retriever" in refused.reason


def test_null_stops_and_a_source_named_twice_is_asked_once() -> None:
    stopped = parse_plan(format_plan("t", "null", TEXT.name), PUBLISHED_SOURCES)
    assert isinstance(stopped, Plan)
    assert stopped.stops
    names = f"{TEXT.name}, {TABLE.name},{TEXT.name}, none"
    assert parse_plan(format_plan("t", "q", names), PUBLISHED_SOURCES) == Plan("t", "q", (TEXT, TABLE))


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("<think>t</think><ret>none</ret>", "<sub-question>"),
        (format_plan("t", "none", TEXT.name), "both be none"),
        (format_plan("t", "q", NONE), "both be none"),
        (format_plan("t", "q", f"{TEXT.name}, {TABLE.name}"), "one retriever"),
    ],
)
def test_a_bad_reply_says_what_is_wrong(reply: str, reason: str) -> None:
    bad = parse_plan(reply, PUBLISHED_SOURCES, single=True)
    assert isinstance(bad, BadReply)
    assert reason in bad.reason


@given(PLAIN, PLAIN.filter(lambda text: text not in ("none", "null")), st.sampled_from(PUBLISHED_SOURCES))
def test_a_written_plan_reads_back(thought: str, query: str, source: Source) -> None:
    assert parse_plan(format_plan(thought, query, source.name), PUBLISHED_SOURCES) == Plan(thought, query, (source,))


@given(PLAIN, PLAIN)
def test_a_written_answer_reads_back(thought: str, answer: str) -> None:
    assert parse_answer(format_answer(thought, answer)) == Answer(thought, answer)


def test_a_written_stop_reads_back() -> None:
    assert parse_plan(format_plan("enough", NONE, NONE), PUBLISHED_SOURCES) == Plan("enough", NONE)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.from_regex(plan_pattern(PUBLISHED_SOURCES), fullmatch=True))
def test_what_the_plan_pattern_lets_pass_is_a_plan(reply: str) -> None:
    plan = parse_plan(reply, PUBLISHED_SOURCES)
    assert isinstance(plan, Plan) or "both be none" in plan.reason


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.from_regex(ANSWER_PATTERN, fullmatch=True))
def test_what_the_answer_pattern_lets_pass_is_an_answer(reply: str) -> None:
    assert isinstance(parse_answer(reply), Answer)


def test_the_patterns_take_what_is_trained() -> None:
    pattern = plan_pattern(PUBLISHED_SOURCES)
    for query, name in (("who?", TABLE.name), ("who?", TEXT.name), (NONE, NONE)):
        assert re.fullmatch(pattern, format_plan("known: a, b.", query, name))
    assert not re.fullmatch(pattern, format_plan("t", "who?", NONE))
    assert not re.fullmatch(pattern, format_plan("t", "who?", "web search"))
    assert re.fullmatch(ANSWER_PATTERN, format_answer("ter-0 tells it", "12.5%"))
