"""The flat FAISS index: exact inner products of unit rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from r1_router.errors import KnowledgeBaseError, MissingDependency
from r1_router.retrieval.manifest import REBUILD
from r1_router.retrieval.vectors import Vectors

BLAS_THRESHOLD = 20  # faiss-cpu may start with 128000, and then searches 64 queries four times as slowly
INSTALL = "pip install faiss-cpu"


def build_dense(rows: Vectors, block: int = 16384) -> Any:
    """An IndexFlatIP of the rows, added in blocks so that a memory-mapped array is never read whole."""
    index = _faiss().IndexFlatIP(rows.shape[1])
    for start in range(0, len(rows), block):
        index.add(rows[start : start + block])
    return index


def save_dense(index: Any, path: Path) -> None:
    """Write the index as one file."""
    _faiss().write_index(index, str(path))


def load_dense(path: Path) -> Any:
    """Read an IndexFlatIP; raises KnowledgeBaseError where the file is anything else."""
    faiss = _faiss()
    try:
        index = faiss.read_index(str(path))
    except RuntimeError as error:
        raise KnowledgeBaseError(f"Cannot read the index {path}: {str(error).splitlines()[0]} {REBUILD}") from error
    if not isinstance(index, faiss.IndexFlat) or index.metric_type != faiss.METRIC_INNER_PRODUCT:
        raise KnowledgeBaseError(f"{path} is a {type(index).__name__}, not a flat inner-product index. {REBUILD}")
    return index


def _faiss() -> Any:
    try:
        import faiss
    except ImportError as error:
        raise MissingDependency(f"A knowledge base needs FAISS: {INSTALL}") from error
    faiss.cvar.distance_compute_blas_threshold = BLAS_THRESHOLD
    return faiss
