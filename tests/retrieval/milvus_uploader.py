"""Uploads passages into an embedded Milvus file and asks for each of them: a process to kill.

    milvus_uploader.py PASSAGES FILE

Prints the passages uploaded so far as it goes, and at the end how many of them find themselves.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from r1_router.retrieval.embedding import open_job
from r1_router.retrieval.milvus import Place, open_base
from r1_router.retrieval.milvus_upload import upload
from r1_router.retrieval.store import open_store
from r1_router.retrieval.vectors import Vectors, unit_rows
from r1_router.types import TEXT, Query


class HashEncoder:
    """A vector of its own for every text, by chance; needs no model, so that the process starts at once."""

    dim = 64
    settings: dict[str, Any] = {"encoder": "hash"}  # noqa: RUF012 (the protocol's attribute)

    def encode(self, items: Sequence[Query]) -> Vectors:
        seeds = [zlib.crc32(item.text.encode()) for item in items]
        return unit_rows(np.stack([np.random.default_rng(seed).normal(size=self.dim) for seed in seeds]))

    encode_passages = encode


def main() -> None:
    passages, place, encoder = Path(sys.argv[1]), Place(sys.argv[2], "killed"), HashEncoder()
    job = open_job(passages, passages.with_name("vectors"), encoder)
    upload(job, place, TEXT, encoder, uploaded=lambda done, total: print(done, flush=True))
    rows = list(open_store(passages))
    found = open_base(place, TEXT, encoder).search_many([Query(row["text"]) for row in rows], 1)
    print(sum(passages[0].id == row["id"] for passages, row in zip(found, rows, strict=True)))


if __name__ == "__main__":
    main()
