"""One knowledge base as it is served: passages, their encoder, a dense and a lexical index. Loading embeds nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from r1_router.batcher import Batcher
from r1_router.errors import DataError, KnowledgeBaseError
from r1_router.retrieval.dense import load_dense
from r1_router.retrieval.lexical import LexicalIndex, load_lexical
from r1_router.retrieval.manifest import LEXICAL, PASSAGES, REBUILD, Inputs, read_manifest
from r1_router.retrieval.store import PassageStore, open_store
from r1_router.retrieval.vectors import PassageEncoder
from r1_router.types import Passage, Query, Source

FUSION_DEPTH = 100  # passages taken from each index before their scores are fused
Ranked = tuple[NDArray[np.int64], NDArray[np.float32]]


class KnowledgeBase:
    """A searchable source; get one by `load`.

    With `lexical_weight` w above 0 the score is (1 - w) x cosine + w x BM25 / the query's best BM25, over the union
    of both indexes' first 100. `search` gathers what is awaited at once into one batch, `search_many` is that batch.
    """

    def __init__(
        self,
        source: Source,
        store: PassageStore,
        encoder: PassageEncoder,
        index: Any,
        *,
        lexical: LexicalIndex | None = None,
        lexical_weight: float = 0.0,
        max_batch: int = 64,
    ) -> None:
        self.source = source
        self._store = store
        self._encoder = encoder
        self._index = index
        self._lexical = lexical
        self._lexical_weight = lexical_weight
        self._batcher: Batcher[tuple[Query, int], list[Passage]] = Batcher(self._answer, max_batch)

    def __len__(self) -> int:
        return len(self._store)

    async def search(self, query: Query, k: int) -> list[Passage]:
        """The `k` nearest passages, best first; raises DataError for a query that cannot be encoded."""
        return await self._batcher((query, k))

    def search_many(self, queries: Sequence[Query], k: int) -> list[list[Passage]]:
        """For each query its `k` nearest passages, best first; fewer where the knowledge base has fewer."""
        if not queries:
            return []
        k = min(k, len(self))
        depth = min(max(k, FUSION_DEPTH), len(self)) if self._lexical else k
        vectors = self._encoder.encode(queries)
        scores, rows = self._index.search(vectors, depth)
        ranked: Iterable[Ranked] = zip(rows, scores, strict=True)
        if self._lexical:
            ranked = map(self._fuse, queries, vectors, rows)
        return [self._passages(found[:k], score[:k]) for found, score in ranked]

    def _fuse(self, query: Query, vector: NDArray[np.float32], dense_rows: NDArray[np.int64]) -> Ranked:
        """Rows and fused scores of the union, best first."""
        assert self._lexical is not None
        lexical = self._lexical.scores(query.text)
        best = np.argpartition(-lexical, len(dense_rows) - 1)[: len(dense_rows)]
        rows = np.union1d(dense_rows[dense_rows >= 0], best[lexical[best] > 0])
        cosine = self._index.reconstruct_batch(rows) @ vector
        weight = self._lexical_weight
        fused = (1 - weight) * cosine + weight * lexical[rows] / max(float(lexical.max()), 1e-9)
        order = np.argsort(-fused, kind="stable")
        return rows[order], fused[order]

    def _passages(self, rows: NDArray[np.int64], scores: NDArray[np.float32]) -> list[Passage]:
        """The passages of these rows; an index that found fewer filled up with -1."""
        found = ((self._store[row], score) for row, score in zip(rows, scores, strict=True) if row >= 0)
        return [Passage(row["id"], row["text"], float(score), self.source) for row, score in found]

    def _answer(self, asked: list[tuple[Query, int]]) -> list[list[Passage] | Exception]:
        """One batch of awaits; where one query cannot be encoded, the others are still answered."""
        try:
            found = self.search_many([query for query, _ in asked], max(k for _, k in asked))
        except DataError as error:
            return [error] if len(asked) == 1 else [outcome for one in asked for outcome in self._answer([one])]
        return [passages[:k] for passages, (_, k) in zip(found, asked, strict=True)]


def load(
    folder: Path,
    source: Source,
    encoder: PassageEncoder,
    *,
    lexical_weight: float = 0.0,
    max_batch: int = 64,
    mmap: bool = False,
    search: str = "",
    gpu: bool = False,
) -> KnowledgeBase:
    """Open the knowledge base in `folder`, for queries by `encoder`; `mmap`, `search`, `gpu` are `load_dense`'s.

    Raises KnowledgeBaseError where the folder is missing, half written, changed since, or made for another source or
    by another encoder.
    """
    manifest = read_manifest(folder)
    _check_inputs(folder, manifest.inputs, source, encoder)
    if lexical_weight > 0 and not manifest.has_lexical:
        raise KnowledgeBaseError(f"{folder} was built without a lexical index, as lexical_weight was 0. {REBUILD}")
    store = open_store(folder / PASSAGES)
    index = load_dense([folder / name for name in manifest.dense_files], mmap=mmap, search=search, gpu=gpu)
    if (index.ntotal, index.d, len(store)) != (manifest.rows, encoder.dim, manifest.rows):
        found = f"{index.ntotal} rows of {index.d} for {len(store)} passages"
        raise KnowledgeBaseError(f"The index in {folder} has {found}, not {manifest.rows} of {encoder.dim}. {REBUILD}")
    lexical = load_lexical(folder / LEXICAL) if lexical_weight > 0 else None
    return KnowledgeBase(
        source, store, encoder, index, lexical=lexical, lexical_weight=lexical_weight, max_batch=max_batch
    )


def _check_inputs(folder: Path, made: Inputs, source: Source, encoder: PassageEncoder) -> None:
    if (made.source, made.tag) != (source.name, source.tag):
        asked = f"{source.name!r} ({source.tag})"
        raise KnowledgeBaseError(f"{folder} was built for {made.source!r} ({made.tag}), not for {asked}. {REBUILD}")
    settings = dict(encoder.settings)
    differ = sorted(key for key in made.encoder.keys() | settings.keys() if made.encoder.get(key) != settings.get(key))
    if differ:
        found = ", ".join(f"{key} {made.encoder.get(key)!r} against {settings.get(key)!r}" for key in differ)
        raise KnowledgeBaseError(f"{folder} was built by another encoder ({found}). {REBUILD}")
