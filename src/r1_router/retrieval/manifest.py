"""The manifest of a knowledge-base folder: what it was made from, so that a wrong or torn folder is never served.

`stamps.json` beside it has every file's size and time as they were when its checksum was last found right: a file that
still has them is not read again. After a copy the times differ, and files are hashed at each start until
`r1-router index check` notes the new ones.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from r1_router import __version__
from r1_router.errors import KnowledgeBaseError
from r1_router.files import sha256_of, write_atomically

FORMAT = 1
MANIFEST = "manifest.json"
STAMPS = "stamps.json"
PASSAGES = "passages.jsonl"
DENSE = "dense.faiss"
LEXICAL = "lexical"
REBUILD = "Build it again: r1-router build, with the same --config"
DENSE_FILE = re.compile(r"dense(-\d+)?\.faiss")


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a knowledge base is made from: equal inputs give the same vectors and words."""

    source: str
    tag: str
    encoder: dict[str, Any]
    lexical: dict[str, Any]
    dim: int
    passages_sha256: str
    images_sha256: str


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """How the vectors are indexed: FAISS's factory string, the rows of one file (None: by size), their type on disk."""

    factory: str = "Flat"
    shard_rows: int | None = None
    dtype: str = "float32"


@dataclass(frozen=True, slots=True)
class Manifest:
    """The inputs, the number of passages, the SHA-256 of every file beside the manifest, and how it was indexed."""

    inputs: Inputs
    rows: int
    files: dict[str, str]
    format: int = FORMAT
    index: IndexSettings = field(default_factory=IndexSettings)
    version: str = ""

    @property
    def dense_files(self) -> list[str]:
        """The index's files in the order of their rows."""
        return sorted(name for name in self.files if DENSE_FILE.fullmatch(name))

    @property
    def has_lexical(self) -> bool:
        return any(name.startswith(f"{LEXICAL}/") for name in self.files)


def write_manifest(folder: Path, inputs: Inputs, rows: int, index: IndexSettings | None = None) -> Manifest:
    """Record the files that are in `folder` now; called last, as its presence says that the folder is whole."""
    files = {name: sha256_of(path) for name, path in _files(folder).items()}
    manifest = Manifest(inputs, rows, files, index=index or IndexSettings(), version=__version__)
    write_stamps(folder)
    write_atomically(folder / MANIFEST, json.dumps(asdict(manifest), indent=1, ensure_ascii=False) + "\n")
    return manifest


def write_stamps(folder: Path) -> None:
    """Note the files' sizes and times; called when their checksums are known to be right."""
    stamps = {name: _stamp(path) for name, path in _files(folder).items()}
    write_atomically(folder / STAMPS, json.dumps(stamps, indent=1) + "\n")


def read_manifest(folder: Path, *, thorough: bool = False) -> Manifest:
    """The manifest of a whole folder; raises KnowledgeBaseError where it is missing, unreadable or not borne out.

    With `thorough` every file is hashed, whatever its size and time say.
    """
    path = folder / MANIFEST
    if not folder.is_dir():
        raise KnowledgeBaseError(f"No knowledge base at {folder}. {REBUILD.replace('it again', 'it')}")
    if not path.is_file():
        raise KnowledgeBaseError(f"{folder} has no {MANIFEST}: it is no knowledge base, or was half written. {REBUILD}")
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if record["format"] != FORMAT:
            raise KnowledgeBaseError(f"{path} has format {record['format']}, this version reads {FORMAT}. {REBUILD}")
        parts = {"inputs": Inputs(**record["inputs"]), "index": IndexSettings(**record.get("index", {}))}
        manifest = Manifest(**{**record, **parts})
    except (ValueError, KeyError, TypeError) as error:
        raise KnowledgeBaseError(f"{path} is not a manifest ({error!r}). {REBUILD}") from error
    _check_files(folder, manifest.files, {} if thorough else _read_stamps(folder))
    return manifest


def _files(folder: Path) -> dict[str, Path]:
    """The files by their path from the folder, sorted, but for the manifest and the stamps."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name not in (MANIFEST, STAMPS))
    return {path.relative_to(folder).as_posix(): path for path in files}


def _stamp(path: Path) -> list[int]:
    found = path.stat()
    return [found.st_size, found.st_mtime_ns]


def _read_stamps(folder: Path) -> dict[str, list[int]]:
    """What `write_stamps` wrote; nothing where that cannot be read: then every file is hashed."""
    try:
        stamps = json.loads((folder / STAMPS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return stamps if isinstance(stamps, dict) else {}


def _check_files(folder: Path, expected: dict[str, str], stamps: dict[str, list[int]]) -> None:
    """Compare with the folder as it is; the folder is walked, so no path of the manifest is ever opened."""
    found = _files(folder)
    for name, checksum in expected.items():
        if name not in found:
            raise KnowledgeBaseError(f"{folder} lacks {name}, which its manifest lists. {REBUILD}")
        if stamps.get(name) != _stamp(found[name]) and sha256_of(found[name]) != checksum:
            raise KnowledgeBaseError(
                f"{folder / name} is not the file that was built: it was cut or changed. {REBUILD}"
            )
