"""Builds a knowledge-base folder from passages: resumed where it was cut short, swapped in only when whole."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from r1_router.errors import ConfigError, KnowledgeBaseError
from r1_router.files import held, write_atomically
from r1_router.retrieval.dense import build_dense, make_index
from r1_router.retrieval.embedding import DTYPES, Progress, embed_shards, open_job, open_vectors
from r1_router.retrieval.inputs import checksums, passage_files
from r1_router.retrieval.lexical import build_lexical, lexical_settings, lexical_text
from r1_router.retrieval.manifest import (
    DENSE,
    LEXICAL,
    MANIFEST,
    PASSAGES,
    IndexSettings,
    Inputs,
    read_manifest,
    write_manifest,
)
from r1_router.retrieval.store import PassageStore, open_store
from r1_router.retrieval.vectors import PassageEncoder
from r1_router.types import Source

INPUTS = "inputs.json"


@dataclass(frozen=True, slots=True)
class Making:
    """How a knowledge base is made: its index, and whether BM25 is beside it, by the stems of a `language` if given.

    `vectors` is a folder that keeps the vectors, for other indexes later, or that has them from `r1-router index embed`
    or `src/bge_embedding.py`; without one they are dropped once they are indexed.
    """

    index: IndexSettings = field(default_factory=IndexSettings)
    lexical: bool = True
    vectors: Path | None = None
    language: str | None = None

    def __post_init__(self) -> None:
        if self.index.dtype not in DTYPES:
            raise ConfigError(f"dtype: vectors are kept as {' or '.join(DTYPES)}, found {self.index.dtype!r}.")
        if self.index.shard_rows is not None and self.index.shard_rows < 1:
            raise ConfigError(f"shard_rows: a file of {self.index.shard_rows} rows holds nothing; give 1 or more.")


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
    making: Making = Making(),
    progress: Progress = lambda done, total: None,
) -> Built:
    """Encode and index `passages` (a JSONL file, or a corpus) into `folder`, unless that was made from the same inputs.

    Image paths are taken from `image_root`, by default the world folder (two up from the file). `progress` is called
    with the passages encoded and their number. A build that is cut short goes on where it was; the folder of before
    stays in use until the new one is whole. Raises DataError naming the line of a bad passage, KnowledgeBaseError for
    a `folder` with other files in it.
    """
    make_index(making.index.factory, encoder.dim)  # a misspelt one is found before hours of encoding
    root = image_root or passages.resolve().parents[1]
    with held(folder.with_name(f".{folder.name}.lock")):
        inputs = _inputs(passage_files(passages), source, encoder, root, making.language)
        part = folder.with_name(f".{folder.name}.part")
        wanted = json.dumps({**asdict(inputs), "index": asdict(making.index)}, sort_keys=True)
        noted = (part / INPUTS).read_text(encoding="utf-8") if (part / INPUTS).is_file() else None
        if (rows := _current_rows(folder, inputs, making)) is not None:
            if noted in (wanted, None):  # left by a build that was killed while it cleared away
                shutil.rmtree(part, ignore_errors=True)
            return Built(folder, rows, reused=True)
        _require_replaceable(folder)
        if noted != wanted:
            _begin(part, wanted)
        kept = making.vectors or part / "vectors"
        sums = inputs.passages_sha256, inputs.images_sha256
        job = open_job(passages, kept, encoder, image_root=root, dtype=making.index.dtype, sums=sums)
        embed_shards(job, encoder, progress)
        vectors = open_vectors(job)
        _place_passages(kept, part / "whole")
        build_dense(vectors, encoder.dim, making.index, part / "whole", part)
        if making.lexical:
            _write_lexical(open_store(kept / PASSAGES), part, making.language)
        write_manifest(part / "whole", inputs, job.rows, making.index)
        _swap_in(part / "whole", folder)
        shutil.rmtree(part)
    return Built(folder, job.rows, reused=False)


def _inputs(files: Sequence[Path], source: Source, encoder: PassageEncoder, root: Path, language: str | None) -> Inputs:
    passages, images = checksums(files, root)
    return Inputs(
        source=source.name,
        tag=source.tag,
        encoder=dict(encoder.settings),
        lexical=lexical_settings(language),
        dim=encoder.dim,
        passages_sha256=passages,
        images_sha256=images,
    )


def _current_rows(folder: Path, inputs: Inputs, making: Making) -> int | None:
    """The passages of the knowledge base that is there, None where it is to be built: missing, broken, or another."""
    try:
        manifest = read_manifest(folder)
    except KnowledgeBaseError:
        return None
    fits = manifest.inputs == inputs and manifest.index == making.index
    return manifest.rows if fits and (manifest.has_lexical or not making.lexical) else None


def _require_replaceable(folder: Path) -> None:
    """Refuse to put a knowledge base in the place of somebody's files: a mistyped path must not cost them."""
    found = {path.name for path in folder.iterdir()} if folder.exists() else set()
    if found and not found & {MANIFEST, DENSE, LEXICAL}:
        raise KnowledgeBaseError(
            f"{folder} is not empty and no knowledge base: give another `folder` in the config, or remove it."
        )


def _begin(part: Path, wanted: str) -> None:
    """Make the hidden folder to build in; what an earlier build of other things left there is cleared."""
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    write_atomically(part / INPUTS, wanted)


def _place_passages(kept: Path, whole: Path) -> None:
    """Put the store into the folder: a second name of the same files, or a copy on another disk."""
    whole.mkdir(exist_ok=True)
    for path in kept.glob(f"{Path(PASSAGES).stem}.*"):
        (whole / path.name).unlink(missing_ok=True)
        try:
            os.link(path, whole / path.name)
        except OSError:
            shutil.copyfile(path, whole / path.name)


def _write_lexical(store: PassageStore, part: Path, language: str | None) -> None:
    if (part / "whole" / LEXICAL).exists():
        return
    shutil.rmtree(part / LEXICAL, ignore_errors=True)
    texts = (lexical_text(row["title"], row["text"]) for row in store)
    build_lexical(texts, language).save(part / LEXICAL)
    (part / LEXICAL).rename(part / "whole" / LEXICAL)


def _swap_in(whole: Path, folder: Path) -> None:
    """Put `whole` in the place of `folder`; a folder cannot be replaced in one step, so the old one steps aside."""
    old = folder.with_name(f".{folder.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        folder.rename(old)
    whole.rename(folder)
    shutil.rmtree(old, ignore_errors=True)
