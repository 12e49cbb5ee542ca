"""Kinds of index measured on vectors: how fast they are built and searched, how large they are, what they miss."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from r1_router.errors import DataError
from r1_router.retrieval.dense import DenseIndex, build_dense, load_dense, make_index, trained_index
from r1_router.retrieval.embedding import NOTE
from r1_router.retrieval.manifest import IndexSettings, read_manifest
from r1_router.retrieval.vectors import Vectors, unit_rows

K = 10
BATCH = 64


@dataclass(frozen=True, slots=True)
class Held:
    """Vectors in memory, by row as `build_dense` asks for them."""

    array: Vectors

    def __len__(self) -> int:
        return len(self.array)

    def rows(self, start: int, stop: int) -> Vectors:
        return self.array[start:stop]


@dataclass(frozen=True, slots=True)
class Measured:
    """One kind of index on the vectors at hand; `recall` is the share of the flat index's first 10 that it finds.

    `build_seconds` are those after the training.
    """

    factory: str
    search: str
    rows: int
    train_seconds: float
    build_seconds: float
    bytes: int
    queries_per_second: float
    recall: float


def measure(rows: Vectors, queries: Vectors, kinds: Sequence[tuple[str, str]]) -> list[Measured]:
    """Build and search each kind, a factory string and what to set for its search, in a folder that is then removed."""
    exact = _flat(rows).search(queries, K)[1]
    return [_measure(rows, queries, factory, search, exact) for factory, search in kinds]


def sample(vectors: Any, most: int, queries: int, seed: int = 0) -> tuple[Vectors, Vectors]:
    """Rows to index and, drawn by a seed from the others, rows to ask for: a row that is indexed would find itself."""
    if len(vectors) < 2 * K:
        raise DataError(f"{len(vectors)} vectors are too few to measure on: give a knowledge base of {2 * K} or more.")
    queries = min(queries, len(vectors) // 2)
    drawn = np.random.default_rng(seed).permutation(len(vectors))[: most + queries]
    found = np.concatenate([vectors.rows(row, row + 1) for row in drawn])
    return found[queries:], found[:queries]


def made_up(rows: int, dim: int, seed: int = 0) -> Held:
    """Unit vectors in clusters of about 50, as passages of one subject are; real ones may be easier or harder."""
    generator = np.random.default_rng(seed)
    centres = generator.standard_normal((max(1, rows // 50), dim), dtype=np.float32)
    noise = generator.standard_normal((rows, dim), dtype=np.float32)
    return Held(unit_rows(centres[generator.integers(len(centres), size=rows)] + noise))


def base_vectors(folder: Path, vectors: Path | None) -> Any:
    """The vectors that a knowledge base was made of: from the folder that keeps them, else as its index has them."""
    if vectors is not None and (vectors / NOTE).is_file():
        return _Stacked([np.load(path, mmap_mode="r") for path in sorted(vectors.glob("vectors-*.npy"))])
    return _Indexed(load_dense([folder / name for name in read_manifest(folder).dense_files], mmap=True))


@dataclass(frozen=True, slots=True)
class _Indexed:
    """Vectors as an index keeps them."""

    index: DenseIndex

    def __len__(self) -> int:
        return self.index.ntotal

    def rows(self, start: int, stop: int) -> Vectors:
        return self.index.reconstruct_batch(np.arange(start, stop))


@dataclass(frozen=True, slots=True)
class _Stacked:
    """Files of vectors that are equally long but for the last, mapped."""

    files: Sequence[Vectors]

    def __len__(self) -> int:
        return sum(map(len, self.files))

    def rows(self, start: int, stop: int) -> Vectors:
        size = len(self.files[0])
        return np.stack([self.files[row // size][row % size] for row in range(start, stop)]).astype(np.float32)


def _measure(rows: Vectors, queries: Vectors, factory: str, search: str, exact: Any) -> Measured:
    with TemporaryDirectory() as name:
        work, folder = Path(name), Path(name) / "whole"
        folder.mkdir()
        started = time.perf_counter()
        trained_index(Held(rows), rows.shape[1], factory, work / "trained.faiss")
        trained = time.perf_counter()
        build_dense(Held(rows), rows.shape[1], IndexSettings(factory), folder, work)
        built = time.perf_counter()
        files = sorted(folder.iterdir())
        index = load_dense(files, search=search)
        index.search(queries[:BATCH], K)
        asked = time.perf_counter()
        found = np.concatenate([index.search(queries[at : at + BATCH], K)[1] for at in range(0, len(queries), BATCH)])
        rate = len(queries) / (time.perf_counter() - asked)
        size = sum(path.stat().st_size for path in files)
    recall = np.mean([np.isin(one, other).mean() for one, other in zip(exact, found, strict=True)])
    return Measured(factory, search, len(rows), trained - started, built - trained, size, rate, float(recall))


def _flat(rows: Vectors) -> DenseIndex:
    index = make_index("Flat", rows.shape[1])
    index.add(rows)
    return DenseIndex([index])
