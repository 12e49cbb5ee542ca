"""Bring bytes over HTTP whatever the line does: go on from what is there, try again, prove that they are right."""

from __future__ import annotations

import os
import random
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import httpx

from r1_router import __version__
from r1_router.datasets.places import Progress, quiet
from r1_router.errors import DownloadError
from r1_router.files import sha256_of

TRIES = 5
"""Tries in a row that brought nothing new, after which a download is given up."""
FIRST_WAIT = 0.5
"""Seconds before the second try; each later wait is twice the one before, with up to as much again by chance."""
TIMEOUT = 30.0
"""Seconds without a byte, after which a connection counts as dropped."""
READ_SECONDS = 120.0
"""Seconds that the body of an unknown file may take: a server that sends a byte now and then holds nobody up."""
_WORTH_RETRYING = {408, 425, 429}
_UNSATISFIABLE = 416


@dataclass(frozen=True, slots=True)
class Remote:
    """One file on the network that is known to the byte."""

    url: str
    size: int
    sha256: str


class _Passing(Exception):
    """What another try may mend."""


class Downloader:
    """A patient HTTP client; use it in a `with` block. Threads may share one."""

    def __init__(self, *, tries: int = TRIES, first_wait: float = FIRST_WAIT, timeout: float = TIMEOUT) -> None:
        # A compressed body would have another length and checksum than the file.
        headers = {"User-Agent": f"r1-router/{__version__}", "Accept-Encoding": "identity"}
        self._client = httpx.Client(timeout=timeout, follow_redirects=True, headers=headers)
        self._tries = tries
        self._first_wait = first_wait

    def __enter__(self) -> Downloader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def fetch(self, remote: Remote, target: Path, progress: Progress = quiet) -> Path:
        """Bring `remote` to `target`, going on from `target`.part where an earlier call was cut short.

        A right file that is there is kept. Raises DownloadError for an address that does not answer or refuses, and
        for other bytes than the pinned ones; what came before is kept for the next call.
        """
        if not (target.is_file() and sha256_of(target) == remote.sha256):
            target.parent.mkdir(parents=True, exist_ok=True)
            part = target.with_name(target.name + ".part")
            self._complete(remote, part, progress)
            os.replace(part, target)
        return target

    def read(self, url: str, limit: int, seconds: float = READ_SECONDS) -> bytes:
        """The body of a file of which nothing is known.

        Raises DownloadError, also where it has over `limit` bytes or takes longer than `seconds`.
        """
        problem = ""
        for failures in range(1, self._tries + 1):
            try:
                with self._response(url) as response:
                    return _bounded(response, limit, seconds)
            except _Passing as error:
                problem = str(error)
            if failures < self._tries:
                self._wait(failures)
        raise DownloadError(f"{url}: {problem} (in {self._tries} tries)")

    def _complete(self, remote: Remote, part: Path, progress: Progress) -> None:
        """Let `part` grow until it is the file; bytes of an earlier call that prove wrong are dropped and had again."""
        if _size(part) > remote.size:
            part.unlink()
        reached, failures, inherited = _size(part), 0, _size(part) > 0
        while True:
            problem = "" if _size(part) == remote.size else self._grow(remote, part, progress)
            size = _size(part)
            if size == remote.size:
                if (found := sha256_of(part)) == remote.sha256:
                    return
                part.unlink()
                if not inherited:
                    raise DownloadError(f"wrong checksum for {remote.url}: sha256 {found}, pinned {remote.sha256}")
                reached, failures, inherited = 0, 0, False
                continue
            failures = 1 if size > reached else failures + 1
            reached = max(reached, size)
            if failures >= self._tries:
                raise DownloadError(f"{remote.url}: {problem}; {size:,} of {remote.size:,} bytes are there")
            self._wait(failures)

    def _grow(self, remote: Remote, part: Path, progress: Progress) -> str:
        """One try to add what is missing; gives why it ended, which matters where bytes are missing still.

        What the server says of the length is not believed: the size is known.
        """
        offset = _size(part)
        try:
            with self._response(remote.url, offset) as response:
                resumed = response.status_code == httpx.codes.PARTIAL_CONTENT
                if response.status_code == _UNSATISFIABLE or (resumed and _first_byte(response) != offset):
                    part.unlink(missing_ok=True)
                    return "the server does not go on from where the download stopped"
                # A server that does not know ranges sends the whole file.
                with open(part, "ab" if resumed else "wb") as file:
                    done = offset if resumed else 0
                    for chunk in response.iter_raw():
                        done += file.write(chunk[: remote.size - done])
                        file.flush()
                        progress(done, remote.size)
                        if done == remote.size:
                            break
        except _Passing as passing:
            return str(passing)
        return "the body ended early"

    @contextmanager
    def _response(self, url: str, offset: int = 0) -> Iterator[httpx.Response]:
        """The answer from byte `offset` on; errors in the block, as in the request, are told apart by their mend."""
        headers = {"Range": f"bytes={offset}-"} if offset else {}
        try:
            with self._client.stream("GET", url, headers=headers) as response:
                status = f"HTTP {response.status_code} {response.reason_phrase}".rstrip()
                if response.status_code >= 500 or response.status_code in _WORTH_RETRYING:
                    raise _Passing(status)
                if not response.is_success and not (offset and response.status_code == _UNSATISFIABLE):
                    raise DownloadError(f"{url}: {status}")
                yield response
        except (httpx.InvalidURL, httpx.UnsupportedProtocol, httpx.TooManyRedirects) as error:
            raise DownloadError(f"{url}: {error}") from error
        except httpx.TransportError as error:
            raise _Passing(f"{type(error).__name__}: {error}") from error

    def _wait(self, failures: int) -> None:
        time.sleep(self._first_wait * 2 ** (failures - 1) * (1 + random.random()))


def _bounded(response: httpx.Response, limit: int, seconds: float) -> bytes:
    body, until = bytearray(), time.monotonic() + seconds
    for chunk in response.iter_raw():
        body += chunk
        if time.monotonic() > until:
            raise DownloadError(f"{response.url}: not whole after {seconds:g} s")
        if len(body) > limit:
            raise DownloadError(f"{response.url}: more than {limit:,} bytes")
    return bytes(body)


def _first_byte(response: httpx.Response) -> int | None:
    """Where a partial body starts, as the server says."""
    found = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
    return int(found[1]) if found else None


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
