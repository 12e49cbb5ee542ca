"""A cross-encoder over what a search found: question and passage are read together, and the best come first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from threading import Lock
from typing import Any

from r1_router.dtypes import torch_dtype
from r1_router.errors import ConfigError, MissingDependency
from r1_router.retrieval.together import Searchable, Together
from r1_router.types import Passage, Query, Source

DEPTH = 50
"""Passages read for each query: the time is in proportion."""
INSTALL = "pip install sentence-transformers"


class CrossEncoderScorer:
    """A sentence-transformers CrossEncoder, from a folder or a hub name: BAAI/bge-reranker-v2-m3 and its like.

    A pair is cut at `max_tokens`. A picture is not looked at. Raises ConfigError where no such model can be loaded.
    """

    def __init__(
        self,
        model: str,
        *,
        max_tokens: int = 512,
        batch_size: int = 32,
        device: str = "cpu",
        dtype: str = "float32",
    ) -> None:
        try:
            from sentence_transformers import CrossEncoder
        except ImportError as error:
            raise MissingDependency(f"The reranker needs sentence-transformers: {INSTALL}") from error
        try:
            self._model: Any = CrossEncoder(model, device=device, trust_remote_code=False)
        except (OSError, ValueError) as error:
            raise ConfigError(f"No cross-encoder at {model!r} ({error}). Mend the source's `reranker`.") from error
        if self._model.num_labels != 1:
            raise ConfigError(f"{model} tells {self._model.num_labels} classes apart; a reranker has one score a pair.")
        self._model.max_seq_length = min(max_tokens, self._model.max_seq_length or max_tokens)
        self._model.to(torch_dtype(dtype, device))
        self._batch_size = batch_size
        self._lock = Lock()  # a fast tokenizer cannot be used by two threads

    def scores(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """How well each pair's second text answers its first; more is better."""
        if not pairs:
            return []
        with self._lock:
            scores = self._model.predict(list(pairs), batch_size=self._batch_size, show_progress_bar=False)
        return [float(score) for score in scores]


class Reranked:
    """A base whose first `depth` passages are put in the cross-encoder's order, with its scores."""

    def __init__(self, base: Searchable, scorer: CrossEncoderScorer, source: Source, *, depth: int = DEPTH) -> None:
        self.source = source
        self._base = base
        self._scorer = scorer
        self._depth = depth
        self._together = Together(self.search_many)

    def __len__(self) -> int:
        return len(self._base)

    async def search(self, query: Query, k: int) -> list[Passage]:
        """The `k` best passages, best first."""
        return await self._together.search(query, k)

    def search_many(self, queries: Sequence[Query], k: int) -> list[list[Passage]]:
        """For each query its `k` best passages, best first; with `k` above `depth` that many are read."""
        found = self._base.search_many(queries, max(k, self._depth))
        pairs = zip(queries, found, strict=True)
        scores = iter(self._scorer.scores([(query.text, one.text) for query, passages in pairs for one in passages]))
        read = [[replace(passage, score=next(scores)) for passage in passages] for passages in found]
        return [sorted(passages, key=lambda passage: -passage.score)[:k] for passages in read]
