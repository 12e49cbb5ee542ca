"""FAISS indexes of inner products by factory string, in one file or in many that are searched one after the other."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from r1_router.errors import ConfigError, KnowledgeBaseError, MissingDependency
from r1_router.retrieval.manifest import DENSE, REBUILD, IndexSettings
from r1_router.retrieval.vectors import Vectors

BLAS_THRESHOLD = 20  # faiss-cpu may start with 128000, and then searches 64 queries four times as slowly
INSTALL = "pip install faiss-cpu"
SHARD_BYTES = 1 << 28  # of float32 vectors in one file, where the config gives no `shard_rows`: the memory of a build
BLOCK = 16384  # rows added at once
TRAIN_ROWS = 65536  # what a quantiser is trained on at least: 256 rows for each of a code's 256 values
ROWS_PER_LIST = 50  # FAISS asks for 39 rows for each inverted list
Found = tuple[NDArray[np.float32], NDArray[np.int64]]


class RowVectors(Protocol):
    """Vectors by row, as `StoredVectors` has them."""

    def __len__(self) -> int: ...

    def rows(self, start: int, stop: int) -> Vectors: ...


class DenseIndex:
    """One FAISS index, or several whose rows are numbered through."""

    def __init__(self, shards: Sequence[Any]) -> None:
        self._shards = shards
        self._starts = np.cumsum([0, *(shard.ntotal for shard in shards)])
        self.ntotal = int(self._starts[-1])
        self.d: int = shards[0].d

    def search(self, vectors: Vectors, k: int) -> Found:
        """Scores and rows, (queries, k), best first; an index that finds fewer fills up with row -1."""
        scores, rows = self._shards[0].search(vectors, k)
        for start, shard in zip(self._starts[1:-1], self._shards[1:], strict=True):
            more, found = shard.search(vectors, k)
            scores = np.concatenate([scores, more], axis=1)
            rows = np.concatenate([rows, np.where(found < 0, -1, found + start)], axis=1)
            best = np.argsort(np.where(rows < 0, np.inf, -scores), axis=1, kind="stable")[:, :k]
            scores, rows = np.take_along_axis(scores, best, axis=1), np.take_along_axis(rows, best, axis=1)
        return scores, rows

    def reconstruct_batch(self, rows: NDArray[np.int64]) -> Vectors:
        """The vectors of these rows, as exact as the index keeps them."""
        vectors = np.empty((len(rows), self.d), dtype=np.float32)
        where = np.searchsorted(self._starts, rows, side="right") - 1
        for number in np.unique(where):
            shard, here = self._shards[number], where == number
            inverted = _faiss().try_extract_index_ivf(shard)
            if inverted is not None and inverted.direct_map.no():
                inverted.make_direct_map()
            vectors[here] = shard.reconstruct_batch(rows[here] - self._starts[number])
        return vectors


def build_dense(vectors: RowVectors, dim: int, settings: IndexSettings, folder: Path, work: Path) -> None:
    """Write the index's files into `folder`, those that are not there yet; `work` keeps the trained index meanwhile.

    Holds one file's index in memory, and where there is something to train the rows for that.
    """
    faiss = _faiss()
    size = settings.shard_rows or max(BLOCK, SHARD_BYTES // (4 * dim))
    starts = range(0, len(vectors), size)
    for number, start in enumerate(starts):
        path = folder / (DENSE if len(starts) == 1 else f"dense-{number:05}.faiss")
        if path.exists():
            continue
        index = trained_index(vectors, dim, settings.factory, work / "trained.faiss")
        stop = min(start + size, len(vectors))
        for block in range(start, stop, BLOCK):
            index.add(vectors.rows(block, min(block + BLOCK, stop)))
        faiss.write_index(index, str(work / path.name))
        del index  # before the next one is made
        (work / path.name).rename(path)


def make_index(factory: str, dim: int) -> Any:
    """An empty index; raises ConfigError for a factory string that FAISS does not know."""
    faiss = _faiss()
    try:
        return faiss.index_factory(dim, factory, faiss.METRIC_INNER_PRODUCT)
    except RuntimeError as error:
        told = f"index: FAISS knows no {factory!r} for {dim} dimensions; try Flat, SQfp16 or IVF4096,SQ8."
        raise ConfigError(told) from error


def training_rows(factory: str, rows: int) -> int:
    """How many rows an index of this kind is trained on."""
    lists = re.search(r"IVF(\d+)", factory)
    return min(rows, max(TRAIN_ROWS, ROWS_PER_LIST * int(lists[1]) if lists else 0))


def trained_index(vectors: RowVectors, dim: int, factory: str, path: Path) -> Any:
    """An empty index that is ready for rows: trained once, on rows drawn by a seed, and then read from `path`."""
    if path.exists():
        return _read(path)
    index = make_index(factory, dim)
    if index.is_trained:
        return index
    drawn = np.random.default_rng(0).permutation(len(vectors))[: training_rows(factory, len(vectors))]
    sample = np.concatenate([vectors.rows(row, row + 1) for row in np.sort(drawn)])
    _without_warnings(index)
    try:
        index.train(sample)
    except RuntimeError as error:
        told = f"{factory} cannot be trained on {len(sample)} rows ({_first(error)}); take Flat, or fewer lists."
        raise ConfigError(f"index: {told}") from error
    part = path.with_suffix(".part")
    _faiss().write_index(index, str(part))
    part.rename(path)
    return index


def _without_warnings(index: Any) -> None:
    """FAISS would tell for each part of each code that a small corpus has few rows to train it on."""
    faiss = _faiss()
    for part in (faiss.try_extract_index_ivf(index), index):
        for trained in (part, getattr(part, "pq", None)):
            if settings := getattr(trained, "cp", None):
                settings.min_points_per_centroid = 1


def load_dense(paths: Path | Sequence[Path], *, mmap: bool = False, search: str = "", gpu: bool = False) -> DenseIndex:
    """Open an index's files; raises KnowledgeBaseError where one is anything but an index of inner products.

    `mmap` leaves them on the disk and reads what a search touches. `search` sets what FAISS lets one set after the
    build, as `nprobe=64` or `efSearch=128`. `gpu` spreads the files over the GPUs.
    """
    faiss = _faiss()
    flags = getattr(faiss, "IO_FLAG_MMAP_IFC", faiss.IO_FLAG_MMAP) if mmap else 0  # before 1.11 only inverted lists
    shards = []
    for path in [paths] if isinstance(paths, Path) else paths:
        shard = _read(path, flags)
        if shard.metric_type != faiss.METRIC_INNER_PRODUCT:
            raise KnowledgeBaseError(f"{path} is a {type(shard).__name__}, not an index of inner products. {REBUILD}")
        if search:
            _tune(shard, search)
        shards.append(shard)
    return DenseIndex(_on_gpus(shards) if gpu else shards)


def _read(path: Path, flags: int = 0) -> Any:
    try:
        return _faiss().read_index(str(path), flags)
    except RuntimeError as error:
        raise KnowledgeBaseError(f"Cannot read the index {path}: {_first(error)} {REBUILD}") from error


def _tune(index: Any, search: str) -> None:
    try:
        _faiss().ParameterSpace().set_index_parameters(index, search)
    except RuntimeError as error:
        raise ConfigError(f"search: {search!r} does not fit the index ({_first(error)}).") from error


def _on_gpus(shards: Sequence[Any]) -> list[Any]:
    faiss = _faiss()
    if not (count := faiss.get_num_gpus()):
        raise ConfigError("gpu: this FAISS sees no GPU. Install a build for GPUs (faiss-gpu-cu12), or leave `gpu` out.")
    scratch = [faiss.StandardGpuResources() for _ in range(count)]  # each sets 1.5 GB of its GPU aside
    places = [number % count for number in range(len(shards))]
    try:
        return [
            faiss.index_cpu_to_gpu(scratch[place], place, shard) for place, shard in zip(places, shards, strict=True)
        ]
    except RuntimeError as error:
        kinds = "Flat, SQfp16, and IVF with Flat, SQ8 or PQ are searched on GPUs"
        raise ConfigError(f"gpu: FAISS could not put the index there ({_first(error)}); {kinds}.") from error


def _first(error: RuntimeError) -> str:
    return str(error).splitlines()[0]


def _faiss() -> Any:
    try:
        import faiss
    except ImportError as error:
        raise MissingDependency(f"A knowledge base needs FAISS: {INSTALL}") from error
    faiss.cvar.distance_compute_blas_threshold = BLAS_THRESHOLD
    return faiss
