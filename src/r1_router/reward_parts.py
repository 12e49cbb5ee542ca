"""One reply against one target: read, then weighed part by part; `rewards` does it for a batch."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from r1_router.replies import ANSWER_PATTERN, BadReply, _blocks, parse_answer, plan_pattern
from r1_router.reward_rules import (
    ANSWER_GOLD,
    ANSWER_PARTS,
    GOLD_ROUTES_READ,
    GOLDS_PAID_BY_RECALL,
    NAMES_PAID,
    NAMES_WITH_NONE,
    QUERY_WEIGHT,
    ROUTE_PARTS,
    ROUTE_WEIGHT,
    SHORT_GOLD_WORDS,
    TIDY_GOLD,
    WORD_GAP,
    RewardOptions,
)
from r1_router.scoring import score
from r1_router.types import NONE, Source


class FailureKind(StrEnum):
    """What cannot be used: the target, the reply, or a similarity that is no number."""

    TARGET = "target"
    REPLY = "reply"
    SIMILARITY = "similarity"


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a reply could not be weighed; `reason` can be shown to a person."""

    kind: FailureKind
    reason: str


@dataclass(frozen=True, slots=True)
class Reward:
    """What one reply earns: `total` is the sum of `parts`, which have their weights in them; all are finite."""

    total: float
    parts: Mapping[str, float]
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class Routing:
    """A routing reply that can be weighed once the two sub-questions are encoded.

    `gold_names` are the retrievers that count as right; `in_form` says whether the reply has exactly the trained form.
    """

    query: str
    names: tuple[str, ...]
    gold_query: str
    gold_names: tuple[str, ...]
    in_form: bool


def read_routing(response: str, target: Any, sources: Sequence[Source], options: RewardOptions) -> Routing | Failure:
    """A routing reply and its target, without any vector; more is accepted than inference accepts, as there."""
    gold = _read_gold(target)
    if isinstance(gold, Failure):
        return gold
    gold_query, gold_names = gold
    blocks = _blocks(response, ("think", "sub-question", "ret"))
    if isinstance(blocks, BadReply):
        return Failure(FailureKind.REPLY, blocks.reason)
    written = [name.strip() for name in blocks["ret"].split(",")]
    by_name = {source.name.lower(): source.name for source in sources} | {NONE: NONE}
    if problem := _problem(blocks["sub-question"], written, by_name, options):
        return Failure(FailureKind.REPLY, problem)
    if len(written) == NAMES_PAID and not gold_names:
        return Failure(FailureKind.TARGET, "the target names no retriever")
    names = tuple(by_name[name] for name in written)
    counted = gold_names if options.several_routes else gold_names[:GOLD_ROUTES_READ]
    return Routing(blocks["sub-question"], names, gold_query, counted, _has_form(plan_pattern(sources), response))


def routing_reward(routing: Routing, cosine: float, options: RewardOptions) -> Reward:
    """The reward of a routing reply, given the similarity of its sub-question to the gold one."""
    if not math.isfinite(cosine):
        return failed(Failure(FailureKind.SIMILARITY, f"the encoder's similarity is {cosine}"), ROUTE_PARTS)
    right = len(routing.names) == NAMES_PAID and routing.names[0] in routing.gold_names
    stopped = right and routing.names[0] == routing.query == NONE
    return _reward(
        query=QUERY_WEIGHT * cosine,
        route=ROUTE_WEIGHT * right,
        format=options.format_weight * routing.in_form,
        stop=options.stop_bonus * stopped,
        cost=_cost(len({*routing.names} - {NONE}), options),
    )


def refused_routing(failure: Failure, sources: Sequence[Source], options: RewardOptions) -> Reward:
    """The reward of a routing step that failed: 0, but for the charge on a bad reply."""
    asked = len(sources) if failure.kind is FailureKind.REPLY else 0
    return failed(failure, ROUTE_PARTS, cost=_cost(asked, options))


def answer_reward(response: str, target: Any, options: RewardOptions) -> Reward:
    """The reward of an answering reply."""
    golds = target if isinstance(target, list | tuple) else [target]
    if odd := [gold for gold in golds if not isinstance(gold, ANSWER_GOLD)]:
        return failed(Failure(FailureKind.TARGET, f"an answer's target must be text, found {odd[0]!r}"), ANSWER_PARTS)
    answer = parse_answer(response)
    if isinstance(answer, BadReply):
        return failed(Failure(FailureKind.REPLY, answer.reason), ANSWER_PARTS)
    in_form = _has_form(ANSWER_PATTERN, response)
    return _reward(answer=_met(answer.text, golds, options), format=options.format_weight * in_form)


def failed(failure: Failure, names: Sequence[str], **charged: float) -> Reward:
    """A reward whose parts are 0, but for what is charged."""
    return Reward(sum(charged.values()), dict.fromkeys(names, 0.0) | charged, failure)


def _read_gold(target: Any) -> tuple[str, tuple[str, ...]] | Failure:
    """The gold sub-question and retrievers of a routing step."""
    query, names = (target.get("query"), target.get("retriever")) if isinstance(target, Mapping) else (None, None)
    if isinstance(query, str) and isinstance(names, list | tuple) and all(isinstance(name, str) for name in names):
        return TIDY_GOLD(query), tuple(map(TIDY_GOLD, names))
    return Failure(FailureKind.TARGET, f"a route's target needs 'query' and a list as 'retriever', found {target!r}")


def _problem(query: str, names: Sequence[str], known: Collection[str], options: RewardOptions) -> str | None:
    """What is wrong with a sub-question and the names beside it, if anything."""
    if unknown := [name for name in names if name not in known]:
        return f"unknown retriever {unknown[0]!r}; known are {', '.join(known)}"
    if NONE in names and len(names) > NAMES_WITH_NONE:
        return "none stands beside another retriever"
    if options.consistent_none and (NONE in names) != (query == NONE):
        return "the sub-question and the retriever must both be none, or neither"
    return None


def _has_form(pattern: str, response: str) -> bool:
    return re.fullmatch(pattern, response.strip(), re.IGNORECASE) is not None


def _cost(asked: int, options: RewardOptions) -> float:
    return 0.0 - options.retrieval_cost * asked  # subtracted, for a log should not show a negative zero


def _met(answer: str, golds: Sequence[str], options: RewardOptions) -> float:
    """How far an answer meets the golds, 0 to 1."""
    if options.soft_long_golds:
        return max((_paid(score(answer, gold).recall, gold) for gold in golds), default=0.0)
    recall = score(answer, golds).recall
    return _paid(recall, golds[0]) if len(golds) == GOLDS_PAID_BY_RECALL else float(recall == 1.0)


def _paid(recall: float, gold: str) -> float:
    """Of a long gold the recall itself; of a short one 1 or 0."""
    return recall if len(gold.split(WORD_GAP)) > SHORT_GOLD_WORDS else float(recall == 1.0)


def _reward(**parts: float) -> Reward:
    return Reward(sum(parts.values()), parts)
