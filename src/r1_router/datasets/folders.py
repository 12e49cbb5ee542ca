"""Pictures by name out of a folder or an archive that holds many more: only those asked for are kept."""

from __future__ import annotations

import lzma
import os
import tarfile
import zipfile
import zlib
from collections.abc import Container, Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from r1_router.datasets.pictures import MAX_BYTES, Pictures
from r1_router.datasets.places import Progress
from r1_router.errors import DataError

TARS = (".tar", ".tar.gz", ".tgz")
ENDINGS = {".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff"}
_BROKEN = (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, lzma.LZMAError, OSError, RuntimeError)
"""The last is how `zipfile` tells of a password, and of a compression that it does not know."""


def from_files(source: Path, pictures: Pictures, progress: Progress) -> dict[str, str]:
    """Copy the wanted pictures out of `source`; gives those that were found and are no pictures, with the reason.

    `source` is a folder, looked through with the folders and archives in it, or one archive (.tar, .tar.gz, .zip).
    Names inside an archive are only compared, so none can lead anywhere.
    """
    wanted, faults = pictures.wanted(), dict[str, str]()
    total = len(wanted)
    for name, data in _find(source, wanted):
        fault = pictures.keep(wanted[name], data)
        if fault:
            faults[wanted[name]] = fault
            continue
        faults.pop(wanted[name], None)
        del wanted[name]
        progress(total - len(wanted), total)
        if not wanted:
            break
    return faults


def _find(source: Path, wanted: Container[str]) -> Iterator[tuple[str, bytes]]:
    if not source.is_dir():
        yield from _find_in_archive(source, wanted)
        return
    for parent, folders, names in os.walk(source):
        folders.sort()
        for path in (Path(parent, name) for name in sorted(names)):
            if _is_wanted(path, wanted):
                with open(path, "rb") as file:
                    yield path.stem, _read(file)
            elif _is_archive(path):
                yield from _find_in_archive(path, wanted)


def _find_in_archive(path: Path, wanted: Container[str]) -> Iterator[tuple[str, bytes]]:
    if not _is_archive(path):
        raise DataError(f"--from: {path} is neither a folder nor an archive ({', '.join(TARS)}, .zip).")
    try:
        yield from (_find_in_zip if path.suffix == ".zip" else _find_in_tar)(path, wanted)
    except _BROKEN as error:
        raise DataError(
            f"{path}: a broken archive ({error}); fetch it again, without a password. What stood before is kept."
        ) from error


def _find_in_tar(path: Path, wanted: Container[str]) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(path, "r|*") as archive:  # read once from end to end: nothing is unpacked, nothing held
        while member := archive.next():
            archive.members.clear()  # type: ignore[attr-defined]  # else each of millions of headers is kept
            name = PurePosixPath(member.name)
            if member.isreg() and _is_wanted(name, wanted) and (file := archive.extractfile(member)):
                yield name.stem, _read(file)


def _find_in_zip(path: Path, wanted: Container[str]) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            name = PurePosixPath(member.filename)
            if not member.is_dir() and _is_wanted(name, wanted):
                with archive.open(member) as file:
                    yield name.stem, _read(file)


def _read(file: IO[bytes]) -> bytes:
    """The file's bytes, of a larger one just enough to see that it is."""
    return file.read(MAX_BYTES + 1)


def _is_wanted(name: PurePosixPath | Path, wanted: Container[str]) -> bool:
    return name.suffix.lower() in ENDINGS and name.stem in wanted


def _is_archive(path: Path) -> bool:
    return path.name.endswith((*TARS, ".zip"))
