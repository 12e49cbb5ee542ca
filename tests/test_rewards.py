"""The step reward against the reference's own figures (golden data), its quirks by hand, and what fails."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from r1_router import jsonl
from r1_router.errors import DataError, EngineError
from r1_router.replies import format_answer, format_plan
from r1_router.reward_parts import FailureKind
from r1_router.reward_rules import ANSWER_PARTS, ROUTE_PARTS, RewardOptions
from r1_router.rewards import Sample, count_rewards, step_reward, step_rewards
from r1_router.types import NONE, TABLE, TEXT, Query, Source
from reward_samples import LONG, ROUTE, STOP, HashEncoder, answer, reward, route

GOLDEN = Path(__file__).parents[1].parent / "shared" / "golden" / "reward_pairs.jsonl"
needs_golden = pytest.mark.skipif(not GOLDEN.is_file(), reason="the golden data (../shared/golden) is not here")


class OverflowingEncoder(HashEncoder):
    """An encoder whose half-precision sums run over: infinite in one place for every text that says `loud`."""

    def encode(self, items: Sequence[Query]) -> NDArray[Any]:
        rows = super().encode(items)
        rows[["loud" in item.text for item in items], 0] = np.inf
        return rows


class ForgetfulEncoder(HashEncoder):
    def encode(self, items: Sequence[Query]) -> NDArray[Any]:
        return super().encode(items)[1:]


def golden_rows() -> list[dict[str, Any]]:
    return list(jsonl.read(GOLDEN))


@needs_golden
def test_every_reward_is_the_references_in_one_call_of_the_encoder() -> None:
    rows = [row for row in golden_rows() if "raises" not in row]
    assert len(rows) > 1000
    encoder = HashEncoder()
    samples = [Sample(row["response"], row["ground_truth"], row["step_type"]) for row in rows]
    for row, found in zip(rows, step_rewards(samples, encoder=encoder), strict=True):
        assert found.total == pytest.approx(row["reward"], abs=1e-9), row
        assert (found.failure is not None) == row["rejected"], row
        assert found.total == pytest.approx(sum(found.parts.values()))
        assert tuple(found.parts) == (ROUTE_PARTS if row["step_type"] == "ret" else ANSWER_PARTS)
    assert len(encoder.calls) == 1


@needs_golden
def test_where_the_reference_itself_fails_an_error_names_what_is_known() -> None:
    (row,) = [row for row in golden_rows() if "raises" in row]
    with pytest.raises(DataError, match=r"ret, ans, final, found 'plan'"):
        step_reward(row["response"], row["ground_truth"], step_type=row["step_type"], encoder=HashEncoder())


def test_a_batch_gives_what_its_samples_give_and_encodes_each_text_once() -> None:
    encoder = HashEncoder()
    replies = [format_plan("t", query, TEXT.name) for query in ("who?", "who is it?", "who?")]
    batch = [*(Sample(reply, ROUTE, "ret") for reply in replies), Sample(format_answer("t", "x"), "x", "final")]
    batch.insert(1, Sample("nothing", ROUTE, "ret"))
    alone = [step_reward(one.response, one.target, step_type=one.step_type, encoder=encoder) for one in batch]
    encoder.calls.clear()
    assert step_rewards(batch, encoder=encoder) == alone
    assert encoder.calls == [["who?", "who is it?"]]


def test_answers_alone_need_no_vectors() -> None:
    encoder = HashEncoder()
    assert step_rewards([Sample(format_answer("t", "x"), ["x"], "ans")], encoder=encoder)[0].total == 1.0
    assert step_rewards([], encoder=encoder) == []
    assert encoder.calls == []


def test_parts_say_where_a_reward_comes_from() -> None:
    assert route("who?", TEXT.name).parts == {"query": 0.5, "route": 0.5, "format": 0, "stop": 0, "cost": 0}
    assert route("who?", TABLE.name).parts["route"] == 0.0
    assert route("else", TEXT.name).parts["query"] == 0.0
    assert answer("x", "x").parts == {"answer": 1.0, "format": 0.0}


@pytest.mark.parametrize(
    ("query", "names", "target", "total"),
    [
        ("Who?", TEXT.name, {**ROUTE, "query": "Who?"}, 0.5),  # TIDY_GOLD: a capital in the gold is never met
        ("who?", "Text Retriever", {**ROUTE, "retriever": ["Text Retriever"]}, 0.5),
        ("who?", TEXT.name, {**ROUTE, "retriever": [f" {TEXT.name}"]}, 0.5),  # nor is a space around it
        ("who?", TEXT.name, {**ROUTE, "retriever": [TABLE.name, TEXT.name]}, 0.5),  # GOLD_ROUTES_READ: the first
        ("who?", f"{TEXT.name}, {TABLE.name}", ROUTE, 0.5),  # NAMES_PAID: one
        ("who?", f"{TEXT.name},{TEXT.name}", ROUTE, 0.5),
        ("who?", f"{TEXT.name},{TABLE.name}", {**ROUTE, "retriever": []}, 0.5),  # an empty gold is not noticed there
        ("who?", f"{TEXT.name}, none", ROUTE, 0.0),  # NAMES_WITH_NONE
        ("none", "none, none", STOP, 0.0),
        ("none", TEXT.name, ROUTE, 0.5),  # a plan that is never carried out is paid all the same
    ],
)
def test_quirks_of_routing_are_kept(query: str, names: str, target: Any, total: float) -> None:
    assert route(query, names, target).total == pytest.approx(total)


@pytest.mark.parametrize(
    ("text", "gold", "total"),
    [
        ("battle of prague", "the white mountain of prague", 0.0),  # SHORT_GOLD_WORDS: five are not long
        ("battle of prague", "the white mountain of great prague", 2 / 5),  # six are
        ("battle of prague", " the white mountain of prague", 2 / 4),  # WORD_GAP: a leading space is one more
        ("battle of prague", "the white  mountain of prague", 2 / 4),
        ("white mountain", LONG, 2 / 6),
        ("white mountain", [LONG], 2 / 6),
        ("white mountain", [LONG, "bila hora"], 0.0),  # GOLDS_PAID_BY_RECALL: two golds, all or nothing
        ("5", [5], 0.0),  # ANSWER_GOLD: a number is no text
        ("6", [{"range": [5, 7]}], 0.0),
        ("x", [], 0.0),
    ],
)
def test_quirks_of_answers_are_kept(text: str, gold: Any, total: float) -> None:
    assert answer(text, gold).total == pytest.approx(total)


def test_a_configured_source_is_known_under_the_name_its_rows_have() -> None:
    code = Source("Code Retriever", "cor", "source code")
    target = {"query": "where is main?", "retriever": [code.name]}
    reply = format_plan("t", "where is main?", code.name)
    assert step_reward(reply, target, step_type="ret", encoder=HashEncoder(), sources=[code]).total == 1.0
    refused = step_reward(reply, target, step_type="ret", encoder=HashEncoder()).failure
    assert refused is not None and "'code retriever'; known are text retriever" in refused.reason


@pytest.mark.parametrize(
    "target",
    [None, "who?", [], {}, {"query": "who?"}, {"query": 5, "retriever": [TEXT.name]}, {**ROUTE, "retriever": TEXT.name},
     {**ROUTE, "retriever": [5]}, {**ROUTE, "retriever": []}],
)  # fmt: skip
def test_a_target_that_cannot_be_used_is_told_from_a_bad_reply(target: Any) -> None:
    found = route("who?", TEXT.name, target)
    assert (found.total, found.failure and found.failure.kind) == (0.0, FailureKind.TARGET)


def test_a_similarity_that_is_no_number_spoils_its_own_sample_only_and_is_counted() -> None:
    queries = ("loud", "who?")
    batch = [Sample(format_plan("t", query, TEXT.name), ROUTE, "ret") for query in queries]
    spoilt, sound = step_rewards(batch, encoder=OverflowingEncoder())
    assert spoilt.failure is not None and spoilt.failure.kind is FailureKind.SIMILARITY
    assert (spoilt.total, sound.total) == (0.0, 1.0)


def test_an_encoder_that_loses_a_text_is_refused() -> None:
    with pytest.raises(EngineError, match="took 2 texts and returned 1 rows"):
        step_reward(format_plan("t", "x", TEXT.name), ROUTE, step_type="ret", encoder=ForgetfulEncoder())


def test_counts_hold_means_of_every_part_and_every_kind_of_failure() -> None:
    rewards = [
        route("who?", TEXT.name),
        route("who?", TABLE.name, format_weight=0.5),
        reward("nothing", ROUTE),
        route("who?", TEXT.name, {}),
        answer("x", "x"),
    ]
    counts = count_rewards(rewards)
    assert counts.rewards == 5
    assert counts.failures == {FailureKind.REPLY: 1, FailureKind.TARGET: 1, FailureKind.SIMILARITY: 0}
    log = counts.to_log()
    assert log["reward/total"] == pytest.approx((1 + 1 + 0 + 0 + 1) / 5)
    assert log["reward/query"] == pytest.approx(1.0 / 4)
    assert (log["reward/answer"], log["reward/format"]) == (1.0, 0.1)
    assert (log["reward/failed_reply"], log["reward/failed_similarity"]) == (1.0, 0.0)
    assert count_rewards([]).means == {}


TAGS = [f"<{slash}{tag}>" for tag in ("think", "sub-question", "ret", "answer") for slash in ("", "/")]
PIECES = st.one_of(st.sampled_from([*TAGS, NONE, TEXT.name, "\ud800", ","]), st.text(max_size=5))
RESPONSES = st.one_of(
    st.lists(PIECES, max_size=12).map("".join),
    st.builds(format_plan, st.just("t"), st.text(max_size=9), st.sampled_from([NONE, TEXT.name])),
    st.builds(format_answer, st.just("t"), st.text(max_size=9)),
)
ROUTES = st.fixed_dictionaries({"query": st.text(), "retriever": st.just([NONE])})
TARGETS = st.one_of(st.text(), st.lists(st.text()), ROUTES)
EVERYTHING = RewardOptions(
    several_routes=True,
    format_weight=1.0,
    consistent_none=True,
    retrieval_cost=1.0,
    stop_bonus=1.0,
    soft_long_golds=True,
)


@settings(max_examples=60, deadline=None)
@given(RESPONSES, TARGETS, st.sampled_from(["ret", "ans", "final"]), st.sampled_from([RewardOptions(), EVERYTHING]))
def test_a_reward_is_finite_whatever_is_written(
    response: str, target: Any, step_type: str, options: RewardOptions
) -> None:
    found = step_reward(response, target, step_type=step_type, encoder=HashEncoder(), options=options)
    assert all(map(math.isfinite, (found.total, *found.parts.values())))
    assert found.failure is None or found.total <= 0.0


def test_half_a_surrogate_pair_reaches_no_tokenizer() -> None:
    encoder = HashEncoder()
    reply = format_plan("t", "who \ud800?", TEXT.name)
    assert step_reward(reply, ROUTE, step_type="ret", encoder=encoder).parts["route"] == 0.5
    assert encoder.calls == [["who ??", "who?"]]
