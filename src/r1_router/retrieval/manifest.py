"""The manifest of a knowledge-base folder: what it was made from, so that a wrong or torn folder is never served."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from r1_router.errors import KnowledgeBaseError
from r1_router.files import sha256_of, write_atomically

FORMAT = 1
MANIFEST = "manifest.json"
PASSAGES = "passages.jsonl"
DENSE = "dense.faiss"
LEXICAL = "lexical"
REBUILD = "Build it again: r1-router build"


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a knowledge base is made from: equal inputs give the same folder."""

    source: str
    tag: str
    encoder: dict[str, Any]
    lexical: dict[str, Any]
    dim: int
    passages_sha256: str
    images_sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """The inputs, the number of passages, and the SHA-256 of every file beside the manifest."""

    inputs: Inputs
    rows: int
    files: dict[str, str]
    format: int = FORMAT


def write_manifest(folder: Path, inputs: Inputs, rows: int) -> Manifest:
    """Record the files that are in `folder` now; called last, as its presence says that the folder is whole."""
    manifest = Manifest(inputs, rows, _checksums(folder))
    write_atomically(folder / MANIFEST, json.dumps(asdict(manifest), indent=1, ensure_ascii=False) + "\n")
    return manifest


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a whole folder; raises KnowledgeBaseError where it is missing, unreadable or not borne out."""
    path = folder / MANIFEST
    if not folder.is_dir():
        raise KnowledgeBaseError(f"No knowledge base at {folder}. {REBUILD}")
    if not path.is_file():
        raise KnowledgeBaseError(f"{folder} has no {MANIFEST}: it is no knowledge base, or was half written. {REBUILD}")
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if record["format"] != FORMAT:
            raise KnowledgeBaseError(f"{path} has format {record['format']}, this version reads {FORMAT}. {REBUILD}")
        manifest = Manifest(**{**record, "inputs": Inputs(**record["inputs"])})
    except (ValueError, KeyError, TypeError) as error:
        raise KnowledgeBaseError(f"{path} is not a manifest ({error!r}). {REBUILD}") from error
    _check_files(folder, manifest.files)
    return manifest


def _checksums(folder: Path) -> dict[str, str]:
    """SHA-256 by path from the folder, sorted."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != MANIFEST)
    return {path.relative_to(folder).as_posix(): sha256_of(path) for path in files}


def _check_files(folder: Path, expected: dict[str, str]) -> None:
    """Compare with the folder as it is; the folder is walked, so no path of the manifest is ever opened."""
    found = _checksums(folder)
    for name, checksum in expected.items():
        if name not in found:
            raise KnowledgeBaseError(f"{folder} lacks {name}, which its manifest lists. {REBUILD}")
        if found[name] != checksum:
            raise KnowledgeBaseError(
                f"{folder / name} is not the file that was built: it was cut or changed. {REBUILD}"
            )
