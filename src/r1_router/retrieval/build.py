"""Builds a knowledge-base folder from a passages file: resumed where it was cut short, swapped in only when whole."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from r1_router.errors import DataError, KnowledgeBaseError
from r1_router.files import held, write_atomically
from r1_router.retrieval.dense import build_dense, save_dense
from r1_router.retrieval.lexical import SETTINGS, build_lexical, lexical_text
from r1_router.retrieval.manifest import (
    DENSE,
    LEXICAL,
    MANIFEST,
    PASSAGES,
    Inputs,
    read_manifest,
    write_manifest,
)
from r1_router.retrieval.store import PassageStore, Row, check_passages, open_store
from r1_router.retrieval.vectors import PassageEncoder, Vectors
from r1_router.types import Query, Source

Progress = Callable[[int, int], None]
CHUNK = 256  # passages encoded between two writes: what a killed build loses at most
VECTORS = "vectors.f32"
INPUTS = "inputs.json"


@dataclass(frozen=True, slots=True)
class Built:
    """The outcome: where the knowledge base is, its passages, and whether it was there already."""

    folder: Path
    rows: int
    reused: bool


def build(
    passages: Path,
    folder: Path,
    source: Source,
    encoder: PassageEncoder,
    *,
    image_root: Path | None = None,
    progress: Progress = lambda done, total: None,
) -> Built:
    """Encode and index `passages` (a world's `kb/*.jsonl`) into `folder`, unless that was made from the same inputs.

    Image paths are taken from `image_root`, by default the world folder (two up from the file). `progress` is called
    with the passages encoded and their number. A build that is cut short goes on where it was; the folder of before
    stays in use until the new one is whole. Raises DataError naming the line of a bad passage, KnowledgeBaseError for
    a `folder` with other files in it.
    """
    store = open_store(passages)
    root = image_root or passages.resolve().parents[1]
    inputs = _inputs(store, source, encoder, root)
    with held(folder.with_name(f".{folder.name}.lock")):
        if _is_current(folder, inputs):
            return Built(folder, len(store), reused=True)
        _require_replaceable(folder)
        check_passages(store)
        part = _part_folder(folder, inputs)
        _encode_missing(store, encoder, part / VECTORS, root, progress)
        whole = _index(store, encoder.dim, part)
        write_manifest(whole, inputs, len(store))
        _swap_in(whole, folder)
        shutil.rmtree(part)
    return Built(folder, len(store), reused=False)


def _inputs(store: PassageStore, source: Source, encoder: PassageEncoder, root: Path) -> Inputs:
    images = hashlib.sha256()
    for row in store:
        if path := _image_path(row, root):
            images.update(hashlib.sha256(path.read_bytes()).digest())
    return Inputs(
        source=source.name,
        tag=source.tag,
        encoder=dict(encoder.settings),
        lexical=SETTINGS,
        dim=encoder.dim,
        passages_sha256=store.sha256,
        images_sha256=images.hexdigest(),
    )


def _image_path(row: Row, root: Path) -> Path | None:
    """The passage's picture, checked to be a file inside `root`."""
    if not row.get("image"):
        return None
    path = (root / row["image"]).resolve()
    if not path.is_relative_to(root.resolve()) or not path.is_file():
        raise DataError(f"Passage {row['id']!r}: no image {row['image']!r} inside {root}. Give its folder: image_root.")
    return path


def _is_current(folder: Path, inputs: Inputs) -> bool:
    try:
        return read_manifest(folder).inputs == inputs
    except KnowledgeBaseError:
        return False  # missing or broken: it is to be built


def _require_replaceable(folder: Path) -> None:
    """Refuse to put a knowledge base in the place of somebody's files: a mistyped path must not cost them."""
    found = {path.name for path in folder.iterdir()} if folder.exists() else set()
    if found and not found & {MANIFEST, DENSE, LEXICAL}:
        raise KnowledgeBaseError(
            f"{folder} is not empty and no knowledge base: give another `folder` in the config, or remove it."
        )


def _part_folder(folder: Path, inputs: Inputs) -> Path:
    """The hidden folder beside `folder` to build in; what an earlier build of other inputs left there is cleared."""
    part = folder.with_name(f".{folder.name}.part")
    wanted = json.dumps(asdict(inputs), sort_keys=True)
    if part.exists() and not ((part / INPUTS).is_file() and (part / INPUTS).read_text(encoding="utf-8") == wanted):
        shutil.rmtree(part)
    part.mkdir(parents=True, exist_ok=True)
    write_atomically(part / INPUTS, wanted)
    return part


def _encode_missing(store: PassageStore, encoder: PassageEncoder, path: Path, root: Path, progress: Progress) -> None:
    """Append the vectors of the passages that `path` does not hold yet, after cutting a torn last row."""
    row_bytes = encoder.dim * np.dtype(np.float32).itemsize
    with open(path, "ab") as file:
        done = min(file.tell() // row_bytes, len(store))
        file.truncate(done * row_bytes)
        progress(done, len(store))
        while done < len(store):
            chunk = [_item(store[row], root) for row in range(done, min(done + CHUNK, len(store)))]
            file.write(encoder.encode_passages(chunk).tobytes())
            file.flush()
            done += len(chunk)
            progress(done, len(store))


def _item(row: Row, root: Path) -> Query:
    path = _image_path(row, root)
    return Query(row["text"], str(path) if path else None)


def _index(store: PassageStore, dim: int, part: Path) -> Path:
    """Write the served files into a folder of their own inside `part`, so that a kill here costs no vectors."""
    whole = part / "whole"
    shutil.rmtree(whole, ignore_errors=True)
    whole.mkdir()
    vectors: Vectors = np.memmap(part / VECTORS, dtype=np.float32, mode="r", shape=(len(store), dim))
    save_dense(build_dense(vectors), whole / DENSE)
    build_lexical(lexical_text(row["title"], row["text"]) for row in store).save(whole / LEXICAL)
    shutil.copyfile(store.path, whole / PASSAGES)
    return whole


def _swap_in(whole: Path, folder: Path) -> None:
    """Put `whole` in the place of `folder`; a folder cannot be replaced in one step, so the old one steps aside."""
    old = folder.with_name(f".{folder.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        folder.rename(old)
    whole.rename(folder)
    shutil.rmtree(old, ignore_errors=True)
