"""Reciprocal-rank fusion: several searches of the same passages as one, by the places that a passage has in each.

Places need no common scale, so inner products of any size can be fused with BM25's scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from r1_router.retrieval.lexical import LexicalIndex, load_lexical
from r1_router.retrieval.manifest import LEXICAL, PASSAGES
from r1_router.retrieval.store import PassageStore, open_store
from r1_router.retrieval.together import Searchable, Together
from r1_router.types import Passage, Query, Source

DEPTH = 100
"""Passages taken from each search before they are fused."""
OFFSET = 60
"""Added to every place, so that a first place in one search does not outweigh good places in all (Cormack 2009)."""


def fused_by_rank(rankings: Sequence[Sequence[Passage]]) -> list[Passage]:
    """Every passage found, best first; its score is the sum over the rankings of 1 / (60 + its place from 1).

    Of passages with equal scores the one that an earlier ranking has comes first.
    """
    scores: dict[str, float] = {}
    passages: dict[str, Passage] = {}
    for ranking in rankings:
        for place, passage in enumerate(ranking, start=1):
            scores[passage.id] = scores.get(passage.id, 0.0) + 1 / (OFFSET + place)
            passages.setdefault(passage.id, passage)
    order = sorted(passages, key=scores.__getitem__, reverse=True)
    return [replace(passages[id_], score=scores[id_]) for id_ in order]


class RankFused:
    """Several bases of the same passages, searched together and fused by rank."""

    def __init__(self, bases: Sequence[Searchable], source: Source) -> None:
        self.source = source
        self._bases = bases
        self._together = Together(self.search_many)

    def __len__(self) -> int:
        return len(self._bases[0])

    async def search(self, query: Query, k: int) -> list[Passage]:
        """The `k` best passages, best first."""
        return await self._together.search(query, k)

    def search_many(self, queries: Sequence[Query], k: int) -> list[list[Passage]]:
        """For each query its `k` best passages, best first."""
        found = [base.search_many(queries, max(k, DEPTH)) for base in self._bases]
        return [fused_by_rank(rankings)[:k] for rankings in zip(*found, strict=True)]


class LexicalBase:
    """A knowledge base's passages searched by BM25 alone; passages that share no word with a query are not found."""

    def __init__(self, store: PassageStore, index: LexicalIndex, source: Source) -> None:
        self._store = store
        self._index = index
        self._source = source

    def __len__(self) -> int:
        return len(self._store)

    def search_many(self, queries: Sequence[Query], k: int) -> list[list[Passage]]:
        """For each query its `k` best passages at most, best first."""
        return [self._search(query.text, min(k, len(self))) for query in queries]

    def _search(self, text: str, k: int) -> list[Passage]:
        scores = self._index.scores(text)
        best = np.argpartition(-scores, k - 1)[:k]
        best = best[np.lexsort((best, -scores[best]))]
        rows = [(self._store[row], float(scores[row])) for row in best if scores[row] > 0]
        return [Passage(row["id"], row["text"], score, self._source) for row, score in rows]


def open_lexical(folder: Path, source: Source) -> LexicalBase:
    """The passages and the BM25 index of the knowledge base in `folder`."""
    return LexicalBase(open_store(folder / PASSAGES), load_lexical(folder / LEXICAL), source)
