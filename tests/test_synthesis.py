"""Teacher rollouts, filters, step rows and the split."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from r1_router.errors import ConfigError, DataError
from r1_router.llm.scripted import ScriptedLLM
from r1_router.methods import Settings
from r1_router.prompts import load_prompts
from r1_router.replies import parse_answer, parse_plan
from r1_router.synthesis.filters import FILTERS, apply, filters_named
from r1_router.synthesis.rows import golds, reply_rows, step_row
from r1_router.synthesis.split import grouped, split
from r1_router.synthesis.teacher import dropped, teacher
from r1_router.types import (
    NONE,
    PUBLISHED_SOURCES,
    TABLE,
    TEXT,
    Answer,
    Passage,
    Plan,
    Question,
    Source,
    Step,
    Trajectory,
)
from test_methods import GOOD_ANSWER, GOOD_PLAN, STOP, finished, shelves


def test_a_thought_that_the_chat_template_opened_is_read() -> None:
    replies = [GOOD_PLAN.format("who?", "text retriever"), GOOD_ANSWER.format("x"), STOP, GOOD_ANSWER.format("x")]
    script = [reply.removeprefix("<think>") for reply in replies]
    settings, question = Settings(load_prompts("trained")), Question("q", "Who?")
    opened = finished(teacher(settings, thought_opened=True)(question, ScriptedLLM(script), shelves()))
    assert opened == replace(finished(teacher(settings)(question, ScriptedLLM(replies), shelves())), usage=opened.usage)
    assert dropped(finished(teacher(settings)(question, ScriptedLLM(script), shelves())), 3) == "plan malformed"


def test_a_reply_malformed_twice_drops_the_question_and_says_which() -> None:
    plan, answer = GOOD_PLAN.format("who?", "text retriever"), GOOD_ANSWER.format("x")
    reasons = {
        "plan malformed": ["bad", "bad"],
        "sub-answer malformed": ["bad", plan, "bad", "bad"],
        "final answer malformed": [plan, "bad", answer, STOP, "bad", "bad"],
    }
    for reason, script in reasons.items():
        llm = ScriptedLLM(script)
        trajectory = finished(teacher(Settings(load_prompts("trained")))(Question("q", "Who?"), llm, shelves()))
        assert dropped(trajectory, 3) == reason
        assert len({call.sampling.seed for call in llm.calls}) == len(llm.calls)
        assert len(script) == len(llm.calls)
    third = [plan, answer] * 3 + ["bad", "bad"]
    trajectory = finished(
        teacher(Settings(load_prompts("trained")))(Question("q", "Who?"), ScriptedLLM(third), shelves())
    )
    assert dropped(trajectory, 3) == "final answer malformed"
    assert dropped(Trajectory(Question("q", "Who?"), error="EngineError: down"), 3) == "failed"


def step(query: str, answer: str, *texts: str, source: Source = TEXT) -> Step:
    passages = tuple(Passage(f"{source.tag}/{text}", text, 1.0, source) for text in texts)
    return Step(Plan("", query, (source,)), passages, Answer("", answer))


def trajectory(
    answer: str, *steps: Step, gold: Any = "Oslo", text: str = "Where?", image: str | None = None
) -> Trajectory:
    return Trajectory(Question(f"{text}{image}", text, gold, image=image), steps, Answer("", answer))


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("recall", trajectory("it is oslo"), trajectory("bergen")),
        (
            "single",
            trajectory("oslo", step("a?", "b", "b")),
            trajectory("oslo", Step(Plan("", "a?", (TEXT, TABLE)), (), Answer("", "b"))),
        ),
        (
            "grounded",
            trajectory("oslo", step("a?", "King Harald", "harald, the king")),
            trajectory("oslo", step("a?", "queen", "king")),
        ),
        (
            "distinct",
            trajectory("oslo", step("one?", "b"), step("two?", "d")),
            trajectory("oslo", step("one?", "b"), step("One", "d")),
        ),
        ("decomposed", trajectory("oslo", step("who?", "b")), trajectory("oslo", step("where?", "b"))),
        ("committed", trajectory("oslo, norway"), trajectory("oslo, bergen or moss")),
    ],
)
def test_each_filter_drops_what_it_is_for(name: str, good: Trajectory, bad: Trajectory) -> None:
    assert FILTERS[name].keeps(good) and not FILTERS[name].keeps(bad)


def test_a_gold_that_is_a_list_may_be_answered_by_one() -> None:
    assert FILTERS["committed"].keeps(trajectory("red, white, blue", gold="red, white, blue"))


def test_drops_are_counted_once_and_the_limit_too() -> None:
    found = apply(
        [trajectory("oslo"), trajectory("bergen, moss or oslo"), trajectory("bergen"), trajectory("oslo")],
        filters_named(["committed"]),
        most=1,
    )
    assert len(found.kept) == 1
    assert found.dropped == {"recall": 1, "committed": 1, "beyond the limit": 1}
    with pytest.raises(ConfigError, match="grounded"):
        filters_named(["ground"])


def test_rows_hold_one_retriever_a_plan_and_the_shown_golds() -> None:
    several = trajectory("oslo", Step(Plan("", "a?", (TEXT, TABLE)), (), Answer("", "b")))
    with pytest.raises(DataError, match="text retriever, table retriever"):
        step_row(several, load_prompts("trained"), PUBLISHED_SOURCES, 5)
    assert golds(Question("q", "Who?", ["x"], extra={"answer": ["Shown", 12]})) == ["Shown", "12"]
    assert golds(Question("q", "Who?", "Alone")) == ["Alone"]


def test_examples_are_no_part_of_a_row_and_images_end_each_prompt() -> None:
    row = step_row(
        trajectory("oslo", step("a?", "b", "b is"), image="f.png"), load_prompts("guided"), PUBLISHED_SOURCES, 5
    )
    assert row["images"] == ["f.png"]
    assert [one["step_type"] for one in row["steps"]] == ["ret", "ans", "ans"]
    assert all(
        one["problem"].endswith("<image>") and one["problem"].count("Origin question") <= 1 for one in row["steps"]
    )
    assert "ter-0: b is" in row["steps"][1]["problem"]


def test_the_rows_of_supervised_tuning_are_the_same_prompts_with_replies_that_are_read_back() -> None:
    told = trajectory("oslo", step("a?", "b", "b is"), Step(Plan("enough", NONE), (), None), image="f.png")
    prompts = load_prompts("trained")
    rows, whole = reply_rows(told, prompts, PUBLISHED_SOURCES, 5), step_row(told, prompts, PUBLISHED_SOURCES, 5)
    assert [row["step_type"] for row in rows] == ["ret", "ans", "ret", "final"]
    for row, one in zip(rows, whole["steps"], strict=True):
        text, image = row["messages"][-1]["content"]
        assert text["text"] + "<image>" == one["problem"] and image == {"type": "image", "image": "f.png"}
    plans = [parse_plan(rows[n]["completion"], PUBLISHED_SOURCES) for n in (0, 2)]
    assert plans == [told.steps[0].plan, told.steps[1].plan]
    assert [parse_answer(rows[n]["completion"]) for n in (1, 3)] == [Answer("", "b"), Answer("", "oslo")]


def test_the_split_shares_no_question_picture_or_evidence() -> None:
    rows = []
    for n in range(200):
        text = f"question {n // 2}" if n < 40 else f"question {n}"
        evidence = f"fact {n // 4} says x" if 40 <= n < 120 else f"fact {n} says x"
        rows.append(
            trajectory("oslo", step("a?", "x", evidence), text=text, image=f"{n // 5}.png" if n >= 160 else None)
        )
    train, validation = split(rows, seed=1)
    assert sorted([*train, *validation]) == list(range(200)) and 35 <= len(validation) <= 40
    for key in (
        lambda n: rows[n].question.text,
        lambda n: rows[n].question.image or n,
        lambda n: rows[n].steps[0].passages[0].id,
    ):
        assert not {key(n) for n in train} & {key(n) for n in validation}
    assert split(rows, seed=1) == (train, validation) and split(rows, seed=2) != (train, validation)


def test_evidence_that_everyone_shares_ties_nobody() -> None:
    assert len(grouped([["ranking", n] for n in range(50)])) == 50
    assert grouped([["a"], ["a", "b"], ["b"], ["c"]]) == [[0, 1, 2], [3]]


def test_rows_are_plain_json() -> None:
    row = step_row(trajectory("oslo", step("a?", "b", "b")), load_prompts("trained"), PUBLISHED_SOURCES, 5)
    assert json.loads(json.dumps(row)) == row
