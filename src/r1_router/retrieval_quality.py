"""How often a knowledge base finds a gold passage: the gold hops asked one by one, with no language model between."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from r1_router.errors import ConfigError, DataError
from r1_router.hops import gold_hops
from r1_router.intervals import Interval, bootstrap
from r1_router.types import IMAGE, Passage, Query, Question, Retriever, Source

DEPTHS = (1, 5, 10)


@dataclass(frozen=True, slots=True)
class GoldQuery:
    """One gold hop as its source is asked; of the `gold` passages one is enough."""

    question: str
    source: str
    query: Query
    gold: frozenset[str]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a search for a gold query gave, best first; `error` says why it could not be made."""

    asked: GoldQuery
    found: tuple[Passage, ...]
    error: str | None = None

    @property
    def place(self) -> int | None:
        """The first gold passage's place, counted from 1; None where none was found."""
        places = (place for place, one in enumerate(self.found, start=1) if is_gold(one.id, self.asked.gold))
        return next(places, None)

    def to_json(self) -> dict[str, Any]:
        """One record of a results file."""
        return {
            "question": self.asked.question,
            "source": self.asked.source,
            "query": self.asked.query.text,
            "image": self.asked.query.image,
            "gold_ids": sorted(self.asked.gold),
            "place": self.place,
            "found": [{"id": passage.id, "score": round(passage.score, 6)} for passage in self.found],
            "error": self.error,
        }


def is_gold(id_: str, gold: frozenset[str]) -> bool:
    """Whether the passage is a gold one, or a part of one: `Page_0#2` is a part of the table `Page_0`."""
    return id_ in gold or whole_of(id_) in gold


def whole_of(id_: str) -> str:
    """The id of the passage that this one is a part of; empty where it is none."""
    return id_.rpartition("#")[0]


def gold_queries(questions: Iterable[Question]) -> list[GoldQuery]:
    """The gold hops with known passages: asked by their sub-question, or by the question where they have none.

    The question's picture goes with it to the image source, as in a run.
    """
    return [
        GoldQuery(
            question.id,
            hop.source,
            Query(hop.query or question.text, question.image if hop.source == IMAGE.name else None),
            hop.ids,
        )
        for question in questions
        for hop in gold_hops(question)
        if hop.ids
    ]


def search_all(retriever: Retriever, asked: Sequence[GoldQuery], k: int) -> list[Outcome]:
    """Each query's first `k` passages, all awaited at once; one that cannot be encoded is an outcome with an error."""

    async def search(one: GoldQuery) -> Outcome:
        try:
            return Outcome(one, tuple(await retriever.search(one.query, k)))
        except DataError as error:
            return Outcome(one, (), str(error))

    async def every() -> list[Outcome]:
        return await asyncio.gather(*map(search, asked))

    return asyncio.run(every())


def ask_bases(
    bases: Mapping[Source, Retriever], questions: Sequence[Question], k: int, names: Sequence[str] | None = None
) -> dict[str, list[Outcome]]:
    """By source, in the order of `bases`, the outcomes of its gold queries; `names` says which, by default all.

    Raises ConfigError for a name that no base has, DataError where no question has a gold passage in them.
    """
    known = {source.name: base for source, base in bases.items()}
    for name in names or ():
        if name not in known:
            raise ConfigError(f"--source: no base is named {name!r}; there are {', '.join(known)}.")
    queries = gold_queries(questions)
    asked = {name: [one for one in queries if one.source == name] for name in known if not names or name in names}
    if not any(asked.values()):
        raise DataError("no question has `hops` with `gold_ids` in these bases; docs/retrievers.md shows them.")
    return {name: search_all(known[name], group, k) for name, group in asked.items() if group}


def hits(outcomes: Sequence[Outcome], depths: Sequence[int] = DEPTHS, seed: int = 0) -> dict[int, Interval]:
    """By depth k, the share of the queries with a gold passage among the first k; a failed search is a miss."""
    return hits_of_places([outcome.place for outcome in outcomes], depths, seed)


def hits_of_places(places: Sequence[int | None], depths: Sequence[int] = DEPTHS, seed: int = 0) -> dict[int, Interval]:
    """The same from places alone, counted from 1; None is a miss at every depth."""
    return {k: bootstrap([place is not None and place <= k for place in places], seed) for k in depths}


def hits_text(shares: Mapping[int, Interval]) -> list[str]:
    """The shares as tables show them, each with its interval."""
    return [f"{one.mean:.3f} [{one.low:.3f}, {one.high:.3f}]" for one in shares.values()]


def read_depths(text: str) -> tuple[int, ...]:
    """The depths of a flag such as `1,5,10`; raises ConfigError for anything but whole numbers from 1 up."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) for part in parts):
        raise ConfigError(f"--k: expected depths such as 1,5,10; found {text!r}.")
    return tuple(sorted({int(part) for part in parts}))
