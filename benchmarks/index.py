"""Building and searching an index beside raw FAISS, and beside shards read anew at each call; the memory each takes.

    python benchmarks/index.py [--rows 1000000] [--dim 384] [--folder DIR]

Each row runs in a process of its own, so that its peak memory is its own; the vectors are made up and lie on the disk
in half precision, as the embedding leaves them. The first rows build: this library, by shards, and raw FAISS with all
vectors in memory. The others search 64 queries for 10, with the loading before it counted apart. `read anew` loads
every shard at each call, as the reference does.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from r1_router.files import write_atomically
from r1_router.retrieval.dense import build_dense, load_dense, make_index
from r1_router.retrieval.embedding import NOTE, Job, StoredVectors
from r1_router.retrieval.index_bench import BATCH, K, made_up
from r1_router.retrieval.manifest import IndexSettings

CALLS = 3
SEED = 7


def make_vectors(folder: Path, rows: int, dim: int) -> Job:
    """The vectors of a job that is done, a shard at a time."""
    job = Job(folder, folder, rows, dim, {})
    for shard in range(job.shards):
        first, stop = job.span(shard)
        np.save(job.path(shard), made_up(stop - first, dim, seed=shard).array.astype(job.dtype))
    write_atomically(folder / NOTE, job.note())
    return job


def stored(folder: Path) -> StoredVectors:
    note = json.loads((folder / NOTE).read_text())
    return StoredVectors(Job(folder, folder, note["rows"], note["dim"], {}))


def build(folder: Path) -> dict[str, float]:
    """This library's build."""
    vectors = stored(folder)
    for name in ("index", "work"):
        (folder / name).mkdir()
    started = time.perf_counter()
    build_dense(vectors, vectors.job.dim, IndexSettings(), folder / "index", folder / "work")
    return {"seconds": time.perf_counter() - started}


def build_raw(folder: Path) -> dict[str, float]:
    """FAISS alone: all vectors, one index, one file."""
    import faiss

    started = time.perf_counter()
    vectors = np.concatenate([np.load(path) for path in sorted(folder.glob("vectors-*.npy"))]).astype(np.float32)
    index = make_index("Flat", vectors.shape[1])
    index.add(vectors)
    faiss.write_index(index, str(folder / "raw.faiss"))
    return {"seconds": time.perf_counter() - started}


def search(folder: Path, mmap: bool = False) -> dict[str, float]:
    """This library's search, in memory or mapped."""
    return _timed(folder, lambda: load_dense(sorted((folder / "index").iterdir()), mmap=mmap))


def search_mapped(folder: Path) -> dict[str, float]:
    return search(folder, mmap=True)


def search_raw(folder: Path) -> dict[str, float]:
    """FAISS alone, with its threshold set as this library sets it."""
    import faiss

    make_index("Flat", 2)
    return _timed(folder, lambda: faiss.read_index(str(folder / "raw.faiss")))


def search_raw_as_installed(folder: Path) -> dict[str, float]:
    import faiss

    return _timed(folder, lambda: faiss.read_index(str(folder / "raw.faiss")))


def search_read_anew(folder: Path) -> dict[str, float]:
    """Every call reads the shards one after the other and keeps the best of them."""

    class ReadAnew:
        def search(self, queries: Any, k: int) -> Any:
            return load_dense(sorted((folder / "index").iterdir())).search(queries, k)

    return _timed(folder, ReadAnew)


def _timed(folder: Path, load: Callable[[], Any]) -> dict[str, float]:
    vectors = stored(folder)
    queries = vectors.rows(0, BATCH) + 0.02 * np.random.default_rng(SEED).standard_normal((BATCH, vectors.job.dim))
    started = time.perf_counter()
    index = load()
    loaded = time.perf_counter() - started
    times = []
    for _ in range(CALLS):
        started = time.perf_counter()
        _, found = index.search(queries.astype(np.float32), K)
        times.append(time.perf_counter() - started)
    return {
        "load": loaded,
        "seconds": statistics.median(times),
        "right": float((found[:, 0] == np.arange(BATCH)).mean()),
    }


PARTS = {
    "build": build,
    "build, raw FAISS": build_raw,
    "search": search,
    "search, mapped": search_mapped,
    "search, raw FAISS": search_raw,
    "search, raw FAISS as installed": search_raw_as_installed,
    "search, read anew": search_read_anew,
}
RAW = {"build": "build, raw FAISS", "search": "search, raw FAISS"}


def in_process(part: str, folder: Path) -> dict[str, float]:
    command = [sys.executable, __file__, "--part", part, "--folder", str(folder)]
    found: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--folder", type=Path, help="where the vectors go; 8 bytes a value are needed there")
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.part:
        found = PARTS[args.part](args.folder)
        print(json.dumps(found | {"rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))
        return
    folder = Path(tempfile.mkdtemp(dir=args.folder))
    try:
        make_vectors(folder, args.rows, args.dim)
        measured = {}
        for part in PARTS:
            measured[part] = in_process(part, folder)
            print(part, measured[part], file=sys.stderr, flush=True)
    finally:
        shutil.rmtree(folder)
    table = Table("what", "load", "seconds", "beside raw FAISS", "peak MB", title=f"{args.rows:,} x {args.dim}, Flat")
    for part, one in measured.items():
        ratio = one["seconds"] / measured[RAW[part.split(",")[0]]]["seconds"]
        table.add_row(part, f"{one.get('load', 0):.2f}", f"{one['seconds']:.2f}", f"{ratio:.2f}", f"{one['rss']:,.0f}")
    Console().print(table)


if __name__ == "__main__":
    main()
