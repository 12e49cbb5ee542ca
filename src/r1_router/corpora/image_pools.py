"""Pictures with captions to passages: M-BEIR's candidate pools, and folders with captions beside them or in a file."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from r1_router.corpora.rows import Outcome, Row, Skipped, inside, json_lines, read_text, text_of
from r1_router.errors import DataError
from r1_router.pictures import is_picture

ENDINGS = (".jpg", ".jpeg", ".png", ".gif", ".bmp", ".tif", ".tiff", ".webp")
CAPTION_FILES = ("captions.jsonl", "captions.csv", "metadata.jsonl", "metadata.csv")
"""Looked for in a folder of pictures, in this order; the last two are what image datasets elsewhere use."""
PATHS = ("img_path", "image", "file_name", "filename", "path")
CAPTIONS = ("txt", "caption", "text")
MODALITIES = {"text": (True, False), "image": (False, True), "image,text": (True, True)}
"""M-BEIR's three: whether a candidate has a text, and whether it has a picture."""


def read_images(source: Path, root: Path | None = None) -> Iterator[Outcome]:
    """A passage a picture, from a captions file or a folder; `root`: what the paths in a file start from, its folder.

    Raises DataError where there is nothing of the kind.
    """
    if source.is_file():
        return _listed(source, root or source.parent)
    if not source.is_dir():
        raise DataError(f"Nothing at {source}: give a candidate pool, a captions file or a folder of pictures.")
    for name in CAPTION_FILES:
        if (source / name).is_file():
            return _listed(source / name, root or source)
    return _beside(source)


def _listed(path: Path, root: Path) -> Iterator[Outcome]:
    for place, record in _records(path):
        if isinstance(record, Skipped):
            yield record
            continue
        name, caption = text_of(record, PATHS), text_of(record, CAPTIONS)
        has_text, has_picture = MODALITIES.get(str(record.get("modality", "image,text")), (None, None))
        if has_text is None:
            yield Skipped(f"{place}: modality {record['modality']!r}; M-BEIR's are {', '.join(MODALITIES)}")
        elif has_picture and not name:
            yield Skipped(f"{place}: no picture in {', '.join(map(repr, PATHS))}; found {', '.join(map(repr, record))}")
        elif not caption and (has_text or not name):
            yield Skipped(
                f"{place}: no caption in {', '.join(map(repr, CAPTIONS))}; found {', '.join(map(repr, record))}"
            )
        elif has_picture and (why := _unusable(root, name)):
            yield Skipped(f"{place}: {why}")
        else:
            identity = text_of(record, ("did", "id")) or name
            title = text_of(record, ("title",)) or caption or _words(name)
            yield Row(identity, title, caption or _words(name), name if has_picture else None)


def _records(path: Path) -> Iterator[tuple[str, Any]]:
    text = read_text(path)
    if path.suffix == ".csv":
        reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
        try:
            yield from ((f"{path}, line {reader.line_num}", record) for record in reader)
        except csv.Error as error:
            yield "", Skipped(f"{path}, line {reader.line_num}: no CSV ({error}); close its quotes")
        return
    for number, record in json_lines(path, text):
        place = f"{path}, line {number}"
        told = Skipped(f"{place}: expected a JSON object, found {type(record).__name__}")
        yield place, record if isinstance(record, dict | Skipped) else told


def _beside(folder: Path) -> Iterator[Outcome]:
    """Pictures with `name.txt` or `name.json` beside them."""
    pictures = sorted(path for path in folder.rglob("*") if path.suffix.lower() in ENDINGS and path.is_file())
    if not pictures:
        raise DataError(f"No pictures in {folder}: give a folder with {', '.join(ENDINGS)} files.")
    for path in pictures:
        name = path.relative_to(folder).as_posix()
        try:
            title, caption = _sidecar(path)
        except DataError as error:
            yield Skipped(str(error))
            continue
        if why := _unusable(folder, name) if caption else "no caption: put it beside the picture, as .txt or .json":
            yield Skipped(f"{path}: {why}")
        else:
            yield Row(name, title or _words(name), caption, name)


def _sidecar(path: Path) -> tuple[str, str]:
    """Title and caption, empty where there is none."""
    if (plain := path.with_suffix(".txt")).is_file():
        return "", " ".join(read_text(plain).split())
    if not (noted := path.with_suffix(".json")).is_file():
        return "", ""
    try:
        record = json.loads(read_text(noted))
    except json.JSONDecodeError as error:
        raise DataError(f"{noted}, line {error.lineno}: not JSON ({error.msg}); mend it.") from error
    if not isinstance(record, dict) or not (caption := text_of(record, CAPTIONS)):
        raise DataError(f"{noted}: no caption in {', '.join(map(repr, CAPTIONS))}; add one.")
    return text_of(record, ("title",)), caption


def _unusable(root: Path, name: str) -> str | None:
    try:
        path = inside(root, name)
        if path is None:
            return f"{name} leads out of {root}; give another --root or mend the path"
        if not path.is_file():
            return f"no file {path}; fetch it, or give another --root"
        with open(path, "rb") as file:
            return None if is_picture(file.read(16)) else f"{path} is no picture; fetch it again"
    except (OSError, ValueError) as error:  # a picture's data in place of its path, for one
        return f"{name[:80]!r} cannot be opened ({getattr(error, 'strerror', None) or error}); give the path of a file"


def _words(name: str) -> str:
    return Path(name).stem.replace("_", " ").replace("-", " ")
