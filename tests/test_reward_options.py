"""Each option of the step reward, by hand."""

import math
from typing import Any

import pytest

from r1_router.errors import ConfigError
from r1_router.replies import format_answer, format_plan
from r1_router.reward_parts import FailureKind
from r1_router.reward_rules import RewardOptions
from r1_router.types import IMAGE, NONE, PUBLISHED_SOURCES, TABLE, TEXT
from reward_samples import LONG, ROUTE, STOP, answer, reward, route


def test_any_of_several_routes_may_be_right() -> None:
    target = {"query": "who?", "retriever": [TABLE.name, TEXT.name]}
    assert route("who?", TEXT.name, target, several_routes=True).total == 1.0
    assert route("who?", IMAGE.name, target, several_routes=True).total == 0.5
    assert route("who?", f"{TEXT.name},{TABLE.name}", target, several_routes=True).total == 0.5


def test_the_format_term_is_paid_for_the_trained_form_alone() -> None:
    good = format_plan("t", "who?", TEXT.name)
    paid = [good, good.upper(), f"\n{good}\n"]
    unpaid = [f"Sure! {good}", good.replace("<think>t", "<think>t <ret>no</ret>"), good.replace("\n", "")]
    parts = [reward(response, ROUTE, format_weight=0.2).parts["format"] for response in (*paid, *unpaid, "nothing")]
    assert parts == [0.2, 0.2, 0.2, 0, 0, 0, 0]
    assert answer("x", "y", format_weight=0.2).total == 0.2
    assert reward(f"So {format_answer('t', 'x')}", "x", "ans", format_weight=0.2).total == 1.0


def test_none_may_be_held_to_both_or_neither() -> None:
    for query, names in ((NONE, TEXT.name), ("who?", NONE)):
        found = route(query, names, consistent_none=True)
        assert (found.total, found.failure and found.failure.kind) == (0.0, FailureKind.REPLY)
        assert route(query, names).failure is None
    assert route(NONE, NONE, STOP, consistent_none=True).total == 1.0
    assert route("who?", TEXT.name, consistent_none=True).total == 1.0


def test_each_retrieval_may_cost_and_breaking_the_form_is_not_cheaper() -> None:
    names = (NONE, TEXT.name, f"{TEXT.name},{TEXT.name}", f"{TEXT.name},{TABLE.name}")
    costs = [route("who?", name, retrieval_cost=0.1).parts["cost"] for name in names]
    assert costs == pytest.approx([0, -0.1, -0.1, -0.2])
    everything = ", ".join(source.name for source in PUBLISHED_SOURCES)
    worst = route("else", everything, retrieval_cost=0.1).total
    assert reward("nothing", ROUTE, retrieval_cost=0.1).total == pytest.approx(worst) == pytest.approx(-0.3)
    assert route("who?", TEXT.name, {}, retrieval_cost=0.1).total == 0.0  # the target's fault


def test_a_stop_may_earn_more_where_the_target_stops() -> None:
    assert route(NONE, NONE, STOP, stop_bonus=0.25).total == 1.25
    assert route(NONE, NONE, ROUTE, stop_bonus=0.25).total == 0.0
    assert route("who?", NONE, STOP, stop_bonus=0.25).total == 0.5  # no stop: a sub-question is left
    assert route("who?", TEXT.name, ROUTE, stop_bonus=0.25).total == 1.0


def test_long_golds_may_pay_recall_beside_others() -> None:
    assert answer("white mountain", [LONG, "bila hora"], soft_long_golds=True).total == pytest.approx(2 / 6)
    assert answer("hora", [LONG, "bila hora"], soft_long_golds=True).total == 0.0
    assert answer("bila hora", [LONG, "bila hora"], soft_long_golds=True).total == 1.0
    assert answer("x", [], soft_long_golds=True).total == 0.0


@pytest.mark.parametrize("name", ["format_weight", "retrieval_cost", "stop_bonus"])
@pytest.mark.parametrize("weight", [-0.1, 1.1, math.nan, math.inf, "0.1", True])
def test_a_weight_that_is_no_share_is_refused(name: str, weight: Any) -> None:
    with pytest.raises(ConfigError, match=name):
        RewardOptions(**{name: weight})
