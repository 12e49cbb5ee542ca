"""A prebuilt M-BEIR index in pyserini's layout, opened as a knowledge base beside the candidate pool that it is of.

The folder holds `index`, flat inner products in FAISS's format, and `docid`, the candidates' ids, one a line in the
order of the rows. The pool is M-BEIR's JSON lines: `did`, `txt`, `img_path`, `modality`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from r1_router.errors import DataError, KnowledgeBaseError
from r1_router.files import sha256_of
from r1_router.retrieval.dense import load_dense
from r1_router.retrieval.knowledge_base import KnowledgeBase
from r1_router.retrieval.vectors import PassageEncoder
from r1_router.types import Source

INDEX, DOCIDS = "index", "docid"


def is_pyserini(folder: Path) -> bool:
    """Whether the folder is a dense index as pyserini lays it."""
    return (folder / INDEX).is_file() and (folder / DOCIDS).is_file()


@dataclass(frozen=True, slots=True)
class Pool:
    """The candidates in the order of an index's rows; each is read from the file when asked for."""

    path: Path
    starts: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, row: int) -> dict[str, Any]:
        """Candidate number `row` as a passage: its id, and its text, empty where it is a picture alone."""
        with open(self.path, "rb") as file:
            file.seek(self.starts[row])
            candidate = json.loads(file.readline())
        return {"id": candidate["did"], "text": candidate.get("txt") or ""}


def open_pool(path: Path, docids: list[str]) -> Pool:
    """Find each id's line in the pool; raises DataError for an id that it lacks, or a line that is no candidate."""
    wanted: Mapping[str, int] = {docid: row for row, docid in enumerate(docids)}
    starts = np.full(len(docids), -1, dtype=np.int64)
    position = 0
    try:
        with open(path, "rb") as file:
            for number, line in enumerate(file, start=1):
                row = wanted.get(_did(line, path, number))
                if row is not None:
                    starts[row] = position
                position += len(line)
    except OSError as error:
        raise DataError(f"passages: {path} cannot be read ({error}); give the candidate pool of the index.") from error
    if missing := np.flatnonzero(starts < 0).tolist():
        raise DataError(
            f"{path} lacks {len(missing)} of the index's {len(docids)} candidates, {docids[missing[0]]!r} first: "
            "it is another pool's file, or was cut."
        )
    return Pool(path, starts)


def _did(line: bytes, path: Path, number: int) -> str:
    try:
        return str(json.loads(line)["did"])
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path}, line {number}: no candidate of M-BEIR's ({error!r}).") from error


def open_pyserini(folder: Path, pool: Path, source: Source, encoder: PassageEncoder) -> KnowledgeBase:
    """The index in `folder` as a knowledge base; `encoder` must be the one it was made with, which it does not say.

    Raises KnowledgeBaseError where index, ids and encoder do not fit each other, DataError where the pool does not.
    """
    index = load_dense(folder / INDEX)
    docids = (folder / DOCIDS).read_text(encoding="utf-8").split()
    if (index.ntotal, index.d) != (len(docids), encoder.dim):
        raise KnowledgeBaseError(
            f"{folder} has {index.ntotal} rows of {index.d} for {len(docids)} ids, and the encoder's vectors have "
            f"{encoder.dim}: fetch it again, or give the encoder that it was made with."
        )
    store: Any = open_pool(pool, docids)  # read as a PassageStore is, by row
    return KnowledgeBase(source, store, encoder, index)


def row_count(folder: Path) -> int:
    """The number of candidates, by the list of their ids."""
    return len((folder / DOCIDS).read_text(encoding="utf-8").split())


def made_from(folder: Path) -> str:
    """What results depend on: the index's size and the ids' checksum; hashing the vectors would take minutes."""
    return f"{(folder / INDEX).stat().st_size} {sha256_of(folder / DOCIDS)[:16]}"
