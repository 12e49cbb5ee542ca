"""Compressed files as bytes: bzip2 stream by stream, so that damage anywhere is told and one stream can be had alone.

Python's own `bz2.open` takes whatever follows a sound stream, when it is not another one, for nothing at all.
"""

from __future__ import annotations

import bz2
import gzip
import io
import mmap
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

BLOCK, AT_ONCE = 1 << 20, 1 << 16
"""Compressed bytes read at once, and bytes unpacked at once: what is unpacked in one go with damage is lost with it."""
_STREAM_START = re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)")
"""A stream's header with the mark of its first block, or of its end: ten bytes that do not come about by chance."""


def opened(path: Path) -> IO[bytes]:
    """The bytes in a plain, .bz2 or .gz file; reading damaged data raises an OSError without number, or EOFError."""
    return unpacked(open(path, "rb"), path.suffix)


def unpacked(file: IO[bytes], suffix: str) -> IO[bytes]:
    """As `opened`, of a file that the caller has opened, and may ask how far it was read."""
    if suffix == ".bz2":
        return io.BufferedReader(_Bzip2(file), BLOCK)
    return cast(IO[bytes], gzip.open(file)) if suffix == ".gz" else file


class _Bzip2(io.RawIOBase):
    """All streams of a file as one."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._stream = bz2.BZ2Decompressor()
        self._waiting = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()

    def _read(self, size: int) -> bytes:
        """At least one byte, but at the end."""
        while True:
            if self._stream.eof:
                self._waiting = self._stream.unused_data or self._file.read(BLOCK)
                if not self._waiting:
                    return b""
                self._stream = bz2.BZ2Decompressor()
            elif self._stream.needs_input and not self._waiting:
                self._waiting = self._file.read(BLOCK)
                if not self._waiting:
                    raise EOFError("the compressed data ends within a stream")
            data = self._stream.decompress(self._waiting, min(size, AT_ONCE))
            self._waiting = b""
            if data:
                return data


def stream_starts(path: Path, start: int, end: int) -> Iterator[int]:
    """Where the bzip2 streams begin that begin at byte `start` or later and before `end`."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        # Nine bytes on, as a mark may begin before `end` and reach over it.
        for found in _STREAM_START.finditer(data, start, min(end + 9, len(data))):
            yield found.start()


def stream_at(path: Path, start: int, at_most: int | None = None) -> tuple[bytes, int | None]:
    """What is in the stream that begins at byte `start`, and where it ends in the file.

    The end is None where more than `at_most` bytes would have to be read for it. Raises OSError and EOFError for
    damaged data as `opened` does.
    """
    stream, found, read = bz2.BZ2Decompressor(), list[bytes](), 0
    with open(path, "rb") as file:
        file.seek(start)
        while not stream.eof:
            if at_most is not None and read >= at_most:
                return b"".join(found), None
            block = file.read(BLOCK)
            if not block:
                raise EOFError("the compressed data ends within a stream")
            read += len(block)
            found.append(stream.decompress(block))
        return b"".join(found), start + read - len(stream.unused_data)
