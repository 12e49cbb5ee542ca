"""What an index of many passages will take, worked out from small ones that are built and searched on the spot."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from r1_router.retrieval.dense import training_rows
from r1_router.retrieval.index_bench import Measured, measure
from r1_router.retrieval.vectors import Vectors

SAMPLE = 10_000
FLOAT = 4
CODES = 256
"""Values of a code; a kind with codes or lists is trained on a row for each at least."""
STORE_BYTES = 24
"""A passage's line start and id in the store."""
SPARE = 0.9
"""The share of free memory or disk that a plan may fill."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A kind of index at full size; `at_sample` is the kind that was measured for it."""

    factory: str
    search: str
    at_sample: str
    search_at_sample: str


@dataclass(frozen=True, slots=True)
class Planned:
    """What the choice takes: bytes of memory, and of disk while it is built, seconds, and how it then answers."""

    choice: Choice
    memory: float
    disk: float
    build_seconds: float
    queries_per_second: float
    recall: float
    fits: str


def choices(passages: int, dim: int, sampled: int = SAMPLE) -> list[Choice]:
    """The kinds that are worth a look at this size; `np` leaves out a training that only serves another search.

    Of too few rows to train on, none is inverted.
    """
    lists, few = lists_for(passages), lists_for(sampled)
    plain = [(kind, "", kind, "") for kind in ("Flat", "SQfp16", "SQ8")]
    graph = [("HNSW32", "efSearch=64", "HNSW32", "efSearch=64")]
    codes = ("SQfp16", "SQ8", *([f"PQ{dim // 8}np"] if dim % 8 == 0 else []))
    inverted = [
        (f"IVF{lists},{code}", f"nprobe={probes(lists)}", f"IVF{few},{code}", f"nprobe={probes(few)}")
        for code in codes
        if min(passages, sampled) >= CODES
    ]
    return [Choice(*one) for one in (*plain, *graph, *inverted)]


def lists_for(rows: int) -> int:
    """The power of two nearest to four times the root of the rows, as FAISS's guidelines have it."""
    return 2 ** round(math.log2(4 * math.sqrt(rows)))


def probes(lists: int) -> int:
    """Lists searched: the root of their number, so that a search's share of the rows falls as they grow."""
    return round(math.sqrt(lists))


def plan(passages: int, rows: Vectors, queries: Vectors, folder: Path) -> list[Planned]:
    """Each choice at `passages` rows like these, and whether it fits this machine's free memory and `folder`'s disk."""
    dim = rows.shape[1]
    offered = choices(passages, dim, len(rows))
    measured = measure(rows, queries, [(one.at_sample, one.search_at_sample) for one in offered])
    memory, disk = free_memory(), shutil.disk_usage(folder).free
    return [_planned(one, at, passages, dim, memory, disk) for one, at in zip(offered, measured, strict=True)]


def _planned(choice: Choice, at: Measured, passages: int, dim: int, memory: float, disk: float) -> Planned:
    """Scale up: bytes by rows, and time by what the kind's time grows with."""
    growth = passages / at.rows
    size = at.bytes * growth
    train, build, search = at.train_seconds, at.build_seconds * growth, growth
    if choice.factory.startswith("IVF"):
        many, few = lists_for(passages), lists_for(at.rows)
        size = (at.bytes - few * dim * FLOAT) * growth + many * dim * FLOAT
        build *= many / few  # every row is compared with every list's centre, and so is every row of the training
        train *= many / few * training_rows(choice.factory, passages) / training_rows(choice.at_sample, at.rows)
        search *= probes(many) / many / (probes(few) / few)
    elif choice.factory.startswith("HNSW"):
        build *= math.log(passages) / math.log(at.rows)
        search = math.log(passages) / math.log(at.rows)
    kept = size + passages * 2 * dim  # and the vectors in half precision, while the index is built
    needed = size + passages * STORE_BYTES
    fits = "in memory" if needed < SPARE * memory else "by mmap" if kept < SPARE * disk else "no"
    if kept > SPARE * disk:
        fits = "no"
    return Planned(choice, needed, kept, train + build, at.queries_per_second / search, at.recall, fits)


def free_memory() -> float:
    """Bytes that a new process can have."""
    meminfo = Path("/proc/meminfo")
    if meminfo.is_file():
        fields = dict(line.split(":") for line in meminfo.read_text(encoding="utf-8").splitlines())
        return float(fields["MemAvailable"].split()[0]) * 1024
    return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))


def table_rows(planned: Sequence[Planned]) -> list[list[str]]:
    """The plan's cells as text."""
    return [
        [
            "\n".join(filter(None, (one.choice.factory, one.choice.search))),
            f"{one.memory / 1e9:.3g} GB",
            f"{one.disk / 1e9:.3g} GB",
            duration(one.build_seconds),
            f"{one.queries_per_second:.3g}",
            f"{one.recall:.3f}",
            one.fits,
        ]
        for one in planned
    ]


def duration(seconds: float) -> str:
    """Seconds in the unit that reads best."""
    for unit, length in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.1f} s"
