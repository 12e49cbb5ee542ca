"""Vectors of passages on disk: shards of equal length, each made once, whichever process gets to it first.

folder/embedding.json            what the vectors are made from; a folder made from something else is refused
folder/passages.jsonl ..         the passages, as a store
folder/vectors-00000.npy ..      a shard, whole; beside it its checksum, as `sha256sum -c` reads it
folder/vectors-00003.npy.part    a shard in hand; whoever holds its lock goes on where the file ends
"""

from __future__ import annotations

import fcntl
import io
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from r1_router.errors import KnowledgeBaseError
from r1_router.files import held, sha256_of, write_atomically
from r1_router.retrieval.inputs import checksums, item_of, passage_files
from r1_router.retrieval.manifest import PASSAGES
from r1_router.retrieval.store import PassageStore, Row, open_store, write_store
from r1_router.retrieval.vectors import PassageEncoder, Vectors

Progress = Callable[[int, int], None]
CHUNK = 1024  # passages sorted by length and encoded between two writes: what a kill costs at most
SHARD_ROWS = 100_000
NOTE = "embedding.json"
AGAIN = "Remove it, and it is made anew by the command that made it."
DTYPES = ("float16", "float32")


@dataclass(frozen=True, slots=True)
class Job:
    """Vectors to be made in a folder, which has their passages; `made_from` is what they depend on."""

    folder: Path
    image_root: Path
    rows: int
    dim: int
    made_from: dict[str, Any]
    dtype: str = "float16"
    shard_rows: int = SHARD_ROWS

    @property
    def shards(self) -> int:
        return -(-self.rows // self.shard_rows)

    @property
    def is_done(self) -> bool:
        return all(self.path(shard).exists() for shard in range(self.shards))

    def path(self, shard: int) -> Path:
        return self.folder / f"vectors-{shard:05}.npy"

    def span(self, shard: int) -> tuple[int, int]:
        """The shard's first row, and the row after its last."""
        return shard * self.shard_rows, min((shard + 1) * self.shard_rows, self.rows)

    def note(self) -> str:
        """What tells this job's vectors from another's, wherever the files are."""
        kept = {key: value for key, value in asdict(self).items() if key not in ("folder", "image_root")}
        return json.dumps(kept, sort_keys=True, indent=1) + "\n"


def open_job(
    passages: Path,
    folder: Path,
    encoder: PassageEncoder,
    *,
    image_root: Path | None = None,
    dtype: str = "float16",
    shard_rows: int = SHARD_ROWS,
    sums: tuple[str, str] | None = None,
) -> Job:
    """The job of embedding a JSONL file or a corpus: its folder is made, with the passages, where it is not there.

    `sums` are the `checksums` of passages and pictures, where they are known.
    Raises DataError naming the line of a bad passage, KnowledgeBaseError where the folder has vectors of other
    passages, by another encoder or in another form.
    """
    root = image_root or passages.resolve().parents[1]
    files = passage_files(passages)
    texts, pictures = sums or checksums(files, root)
    made_from = {"passages_sha256": texts, "images_sha256": pictures, "encoder": dict(encoder.settings)}
    with held(folder / ".lock"):
        note, there = folder / NOTE, folder / PASSAGES
        if not note.exists() and any(folder.glob("vectors-*")):
            raise KnowledgeBaseError(f"{folder} has vectors but no {NOTE}. Remove it, or give another folder.")
        store = open_store(there) if note.exists() and there.exists() else write_store(files, there)
        job = Job(folder, root, len(store), encoder.dim, made_from, dtype, shard_rows)
        if not note.exists():
            write_atomically(note, job.note())
    if json.loads(note.read_text(encoding="utf-8")) != json.loads(job.note()):
        raise KnowledgeBaseError(
            f"The vectors in {folder} were made from other passages, by another encoder or in another form. Remove "
            "the folder, or give another one."
        )
    return job


def embed_shards(job: Job, encoder: PassageEncoder, progress: Progress = lambda done, total: None) -> None:
    """Make the shards that are not there yet; start it in as many processes as you like, on any machine with the disk.

    First those that no process has in hand, then the rest, once their locks are free: a process that was killed leaves
    its shard to another. Holds one chunk of passages and vectors in memory.
    """
    progress(rows_done(job), job.rows)
    for wait in (False, True):
        for shard in range(job.shards):
            embed_shard(job, shard, encoder, wait=wait, progress=progress)


def embed_shard(
    job: Job,
    shard: int,
    encoder: PassageEncoder,
    *,
    wait: bool = True,
    progress: Progress = lambda done, total: None,
) -> None:
    """Make one shard unless it is there; one that another process has in hand is waited for, or passed over."""
    if job.path(shard).exists():
        return
    with _claimed(job.path(shard).with_suffix(".lock"), wait) as mine:
        if mine and not job.path(shard).exists():
            _embed(job, open_store(job.folder / PASSAGES), shard, encoder, progress)


def _embed(job: Job, store: PassageStore, shard: int, encoder: PassageEncoder, progress: Progress) -> None:
    """Make one shard, going on after the last whole chunk of its part; the file gets its name when it is whole."""
    first, stop = job.span(shard)
    path, header, row_bytes = job.path(shard), _header(job, stop - first), job.dim * np.dtype(job.dtype).itemsize
    part = path.with_suffix(".npy.part")
    with open(part, "ab") as file:
        done = max(0, file.tell() - len(header)) // (CHUNK * row_bytes) * CHUNK
        file.truncate(len(header) + done * row_bytes if done else 0)
        if not done:
            file.write(header)
        for start in range(first + done, stop, CHUNK):
            rows = store.rows(start, min(start + CHUNK, stop))
            file.write(_encoded(rows, job.image_root, encoder).astype(job.dtype).tobytes())
            file.flush()
            progress(rows_done(job), job.rows)
        os.fsync(file.fileno())
    write_atomically(path.with_suffix(".sha256"), f"{sha256_of(part)}  {path.name}\n")
    part.rename(path)


def _encoded(rows: list[Row], root: Path, encoder: PassageEncoder) -> Vectors:
    """Vectors in the order of the rows, encoded longest first: texts of a batch are alike, a batch too large is met at
    once."""
    order = sorted(range(len(rows)), key=lambda row: -len(rows[row]["text"]))
    found = encoder.encode_passages([item_of(rows[row], root) for row in order])
    vectors = np.empty_like(found)
    vectors[order] = found
    return vectors


def rows_done(job: Job) -> int:
    """The passages that have a vector on the disk, by whichever process."""
    done, row_bytes = 0, job.dim * np.dtype(job.dtype).itemsize
    for shard in range(job.shards):
        first, stop = job.span(shard)
        part = job.path(shard).with_suffix(".npy.part")
        if job.path(shard).exists():
            done += stop - first
        elif part.exists():
            done += max(0, part.stat().st_size - len(_header(job, stop - first))) // row_bytes
    return done


@dataclass(frozen=True, slots=True)
class StoredVectors:
    """A finished job's vectors, read by row and not mapped: a build's memory stays that of a block."""

    job: Job

    def __len__(self) -> int:
        return self.job.rows

    def rows(self, start: int, stop: int) -> Vectors:
        """The vectors from row `start` until before `stop`, float32."""
        found: list[NDArray[Any]] = []
        row_bytes = self.job.dim * np.dtype(self.job.dtype).itemsize
        while start < stop:
            shard = start // self.job.shard_rows
            first, end = self.job.span(shard)
            count = min(stop, end) - start
            offset = len(_header(self.job, end - first)) + (start - first) * row_bytes
            found.append(np.fromfile(self.job.path(shard), self.job.dtype, count * self.job.dim, offset=offset))
            start += count
        return np.concatenate(found).reshape(-1, self.job.dim).astype(np.float32)


def open_vectors(job: Job) -> StoredVectors:
    """The vectors of a finished job; raises KnowledgeBaseError, naming the file, for a shard that is missing or cut."""
    for shard in range(job.shards):
        path, (first, stop) = job.path(shard), job.span(shard)
        size = len(_header(job, stop - first)) + (stop - first) * job.dim * np.dtype(job.dtype).itemsize
        if not path.is_file() or path.stat().st_size != size:
            raise KnowledgeBaseError(f"{path} is missing or was cut. {AGAIN}")
    return StoredVectors(job)


def check_vectors(folder: Path) -> int:
    """Compare every shard with its checksum and give their number; raises KnowledgeBaseError naming a wrong one."""
    shards = sorted(folder.glob("vectors-*.npy"))
    for path in shards:
        noted = path.with_suffix(".sha256")
        if not noted.is_file() or noted.read_text(encoding="utf-8").split()[:1] != [sha256_of(path)]:
            raise KnowledgeBaseError(f"{path} is not the file that was made. {AGAIN}")
    return len(shards)


def _header(job: Job, rows: int) -> bytes:
    """How NumPy's file of that many rows begins."""
    head = io.BytesIO()
    shape = {"descr": np.dtype(job.dtype).str, "fortran_order": False, "shape": (rows, job.dim)}
    np.lib.format.write_array_header_1_0(head, shape)
    return head.getvalue()


@contextmanager
def _claimed(lock: Path, wait: bool) -> Iterator[bool]:
    """Hold `lock` while the block runs; gives False where another process has it and `wait` is not asked for."""
    with open(lock, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
        else:
            yield True
