"""Searches awaited at once as one call of a base that searches many queries together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from r1_router.batcher import Batcher
from r1_router.errors import DataError
from r1_router.types import Passage, Query

MAX_BATCH = 64
Asked = tuple[Query, int]


class Searchable(Protocol):
    """A knowledge base that can be served: its size, and a search of many queries in one call."""

    def __len__(self) -> int: ...

    def search_many(self, queries: Sequence[Query], k: int) -> list[list[Passage]]: ...


class Together:
    """A `Retriever` over `search_many`: what is awaited while it works goes out in its next call.

    Where a call raises DataError its queries are asked one by one, so that a bad one fails alone. `on_batch` is told
    how many queries each call has.
    """

    def __init__(
        self,
        search_many: Callable[[Sequence[Query], int], list[list[Passage]]],
        on_batch: Callable[[int], None] = lambda queries: None,
    ) -> None:
        self._search_many = search_many
        self._on_batch = on_batch
        self._batcher: Batcher[Asked, list[Passage]] = Batcher(self._answer, MAX_BATCH)

    async def search(self, query: Query, k: int) -> list[Passage]:
        """The `k` nearest passages, best first."""
        return await self._batcher((query, k))

    def _answer(self, asked: list[Asked]) -> list[list[Passage] | Exception]:
        self._on_batch(len(asked))
        try:
            found = self._search_many([query for query, _ in asked], max(k for _, k in asked))
        except DataError as error:
            return [error] if len(asked) == 1 else [outcome for one in asked for outcome in self._answer([one])]
        return [passages[:k] for passages, (_, k) in zip(found, asked, strict=True)]
