"""What a knowledge base is made from: passages files and the pictures they name, and the checksums of both."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from r1_router.errors import DataError
from r1_router.retrieval.store import Row, open_store
from r1_router.types import Query


def passage_files(path: Path) -> list[Path]:
    """The file itself, or the shards of a corpus folder in their order."""
    files = sorted(path.glob("passages-*.jsonl")) if path.is_dir() else [path]
    if not files:
        raise DataError(f"No passages-*.jsonl in {path}: give a passages file, or a corpus that is whole.")
    return files


def checksums(files: Sequence[Path], root: Path) -> tuple[str, str]:
    """SHA-256 of the files' bytes, one after the other, and of the checksums of the pictures they name."""
    passages, images = hashlib.sha256(), hashlib.sha256()
    for path in files:
        store = open_store(path)
        with open(path, "rb") as file:
            for row, line in enumerate(file):
                passages.update(line)
                if b'"image"' in line and (picture := image_path(store[row], root)):
                    images.update(hashlib.sha256(picture.read_bytes()).digest())
    return passages.hexdigest(), images.hexdigest()


def item_of(row: Row, root: Path) -> Query:
    """The passage as encoders take it."""
    path = image_path(row, root)
    return Query(row["text"], str(path) if path else None)


def image_path(row: Row, root: Path) -> Path | None:
    """The passage's picture, checked to be a file inside `root`."""
    if not row.get("image"):
        return None
    path = (root / row["image"]).resolve()
    if not path.is_relative_to(root.resolve()) or not path.is_file():
        raise DataError(f"Passage {row['id']!r}: no image {row['image']!r} inside {root}. Give its folder: image_root.")
    return path
