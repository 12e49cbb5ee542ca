"""Gold hops as trajectories: the second source of step rows, where a benchmark has them written down.

The passages are really retrieved, so that a model learns to read what it will be shown; a question with a hop whose
gold passage is not among those shown is left out, for there would be nothing to read its answer from. So is one with
more hops than there are steps; where the hops use the steps up, none is left for the stop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from r1_router.errors import DataError
from r1_router.types import IMAGE, MAX_STEPS, NONE, Answer, Passage, Plan, Query, Question, Source, Step, Trajectory

HOP_KEYS = {"query", "source", "gold_ids", "answer"}
Search = Callable[[Source, Sequence[Query]], list[list[Passage]]]
"""Searches one source for many queries at once; passages best first."""


def gold_trajectories(
    questions: Sequence[Question], sources: Sequence[Source], search: Search, shown: int
) -> Iterator[Trajectory]:
    """The trajectories of the questions whose every hop can be read; a hop has query, source, answer and gold_ids.

    Raises DataError for a hop that lacks one of these, or names a source that is not there.
    """
    _require_hops(questions, by_name(sources))
    found = _retrieved(questions, sources, search)
    for question in questions:
        steps = [_step(hop, by_name(sources), found, question) for hop in _hops(question)]
        readable = all(
            {passage.id for passage in step.passages[:shown]} & set(hop["gold_ids"])
            for step, hop in zip(steps, _hops(question), strict=True)
        )
        if readable and 0 < len(steps) <= MAX_STEPS:
            closing = question.extra.get("closing", "")
            with_stop = (*steps, Step(Plan("", NONE)))[:MAX_STEPS]
            yield Trajectory(question, with_stop, Answer(closing, str(question.answers[0]).lower()))


def by_name(sources: Sequence[Source]) -> dict[str, Source]:
    return {source.name: source for source in sources}


def _require_hops(questions: Sequence[Question], sources: Mapping[str, Source]) -> None:
    for question in questions:
        for hop in _hops(question):
            if missing := HOP_KEYS - hop.keys():
                raise DataError(f"question {question.id}: a gold hop lacks {', '.join(sorted(missing))}: {hop!r}.")
            if hop["source"] not in sources:
                known = ", ".join(sources)
                raise DataError(f"question {question.id}: a hop asks the {hop['source']!r}; the sources are {known}.")


def _retrieved(
    questions: Sequence[Question], sources: Sequence[Source], search: Search
) -> Mapping[tuple[str, Query], list[Passage]]:
    """Every hop's passages, one search a source."""
    found: dict[tuple[str, Query], list[Passage]] = {}
    for source in sources:
        hops = [(hop, question) for question in questions for hop in _hops(question) if hop["source"] == source.name]
        queries = list(dict.fromkeys(_query(hop, source, question) for hop, question in hops))
        if queries:
            found |= {
                (source.name, query): passages for query, passages in zip(queries, search(source, queries), strict=True)
            }
    return found


def _step(hop: Mapping[str, Any], sources: Mapping[str, Source], found: Any, question: Question) -> Step:
    source = sources[hop["source"]]
    plan = Plan(hop.get("thought", ""), hop["query"], (source,))
    passages = found[source.name, _query(hop, source, question)]
    return Step(plan, tuple(passages), Answer("", str(hop["answer"]).lower()))


def _query(hop: Mapping[str, Any], source: Source, question: Question) -> Query:
    return Query(hop["query"].lower().strip(), question.image if source.tag == IMAGE.tag else None)


def _hops(question: Question) -> list[Mapping[str, Any]]:
    return [hop for hop in question.extra.get("hops") or () if hop.get("source") != NONE]
