"""A knowledge base behind a retrieval server: bounded, retried, and given up on for now where nobody answers."""

from __future__ import annotations

import base64
import json
import logging
import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import httpx

from r1_router.errors import DataError, KnowledgeBaseDown, KnowledgeBaseError
from r1_router.retrieval.together import Together
from r1_router.types import Passage, Query, Source

TRIES = 5
FIRST_WAIT = 0.25
"""Seconds before the second try; each later wait is twice the one before, with up to as much again by chance."""
TIMEOUT = 60.0
"""Seconds till an answer must be there whole."""
BODY_BYTES = 12 * 2**20
"""Queries with pictures are sent in bodies of about this size: below what a server takes."""
ANSWER_BYTES = 256 * 2**20
_WORTH_RETRYING = {408, 425, 429, 500, 502, 503, 504}
_log = logging.getLogger(__name__)
Read = TypeVar("Read")


@dataclass(frozen=True, slots=True)
class About:
    """What a server says of one source; `made_from` is what results depend on."""

    passages: int
    made_from: list[Any]


class RemoteBase:
    """A `Retriever` that asks a server made by `r1-router serve-retriever` at `url`; nothing is asked before a search.

    Searches raise KnowledgeBaseDown once the tries are used up. From then on each search tries once, till one is
    answered again, so that a run does not wait out every try for every question. Raises DataError for a query that
    the server refuses, KnowledgeBaseError where it has no such source.
    """

    def __init__(
        self, url: str, source: Source, *, timeout: float = TIMEOUT, tries: int = TRIES, first_wait: float = FIRST_WAIT
    ) -> None:
        self.source = source
        self._url = url.rstrip("/")
        self._timeout = timeout
        self._tries = tries
        self._first_wait = first_wait
        self._is_down = False
        self._http = httpx.Client(timeout=timeout, headers={"Accept-Encoding": "identity"})
        self._together = Together(self.search_many)

    def __len__(self) -> int:
        return self.about().passages

    async def search(self, query: Query, k: int) -> list[Passage]:
        """The `k` nearest passages, best first; what is awaited at once goes out in one request."""
        return await self._together.search(query, k)

    def search_many(self, queries: Sequence[Query], k: int) -> list[list[Passage]]:
        """For each query its `k` nearest passages, best first."""
        found: list[list[Passage]] = []
        for group in _groups([_wire(query) for query in queries]):
            body = json.dumps({"source": self.source.name, "queries": group, "k": k}).encode()
            found += self._ask("POST", "/search", body, partial(self._passages, len(group)))
        return found

    def about(self) -> About:
        """What the server says of this source; raises KnowledgeBaseError where it does not serve it."""
        sources = self._ask("GET", "/health", b"", lambda answer: dict(answer["sources"]))
        entry = sources.get(self.source.name)
        if not isinstance(entry, dict) or entry.get("tag") != self.source.tag:
            wanted = f"{self.source.name!r} ({self.source.tag})"
            raise KnowledgeBaseError(f"{self._url} does not serve {wanted}; it has {', '.join(sources) or 'nothing'}.")
        try:
            return About(int(entry["passages"]), list(entry["made_from"]))
        except (KeyError, TypeError, ValueError) as error:
            told = f"{self._url}/health says too little of {self.source.name!r} ({error!r})."
            raise KnowledgeBaseError(told) from error

    def _ask(self, method: str, path: str, body: bytes, read: Callable[[Any], Read]) -> Read:
        """What `read` makes of the answer, with as many tries as are due."""
        fault = ""
        for attempt in range(1 if self._is_down else self._tries):
            if attempt:
                time.sleep(self._first_wait * 2 ** (attempt - 1) * (1 + random.random()))
            try:
                answer = read(json.loads(self._once(method, path, body)))
            except (httpx.TransportError, _Passing) as error:
                fault = f"{type(error).__name__.strip('_')}: {error}"
            except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
                fault = f"not an answer of a retrieval server ({error!r:.200})"
            else:
                self._is_down = False
                return answer
        if not self._is_down:
            _log.warning("%s: %s is down, searches go on without it; last: %s", self.source.name, self._url, fault)
        self._is_down = True
        raise KnowledgeBaseDown(f"{self._url} does not answer; last: {fault}. Is `r1-router serve-retriever` running?")

    def _once(self, method: str, path: str, body: bytes) -> bytes:
        """One try: the body of a good answer. Raises KnowledgeBaseError and DataError where no other try will help."""
        deadline = time.monotonic() + self._timeout
        with self._http.stream(method, self._url + path, content=body) as response:
            content = _bounded(response, deadline)
        if response.status_code == httpx.codes.OK:
            return content
        said = content[:500].decode(errors="replace")
        if response.status_code in _WORTH_RETRYING:
            raise _Passing(f"HTTP {response.status_code}: {said}")
        kind = DataError if response.status_code in (400, 413) else KnowledgeBaseError
        raise kind(f"{self._url}{path} refused {self.source.name!r}: HTTP {response.status_code}: {said}")

    def _passages(self, queries: int, answer: Any) -> list[list[Passage]]:
        """One list for each query; raises ValueError and its like for anything else."""
        results = answer["results"]
        if len(results) != queries:
            raise ValueError(f"{len(results)} results for {queries} queries")
        return [[_passage(row, self.source) for row in rows] for rows in results]


class _Passing(Exception):
    """A fault that another try may mend."""


def _bounded(response: httpx.Response, deadline: float) -> bytes:
    """The body as it comes; a server that sends it by drops, or without an end, is not waited for."""
    content = bytearray()
    for part in response.iter_raw():
        content += part
        if len(content) > ANSWER_BYTES:
            raise _Passing(f"an answer of more than {ANSWER_BYTES} bytes")
        if time.monotonic() > deadline:
            raise _Passing("the answer came too slowly")
    return bytes(content)


def _passage(row: Any, source: Source) -> Passage:
    id_, text, score = row["id"], row["text"], float(row["score"])
    if not (isinstance(id_, str) and isinstance(text, str) and math.isfinite(score)):
        raise ValueError(f"no passage: {row!r:.200}")
    return Passage(id_, text, score, source)


def _wire(query: Query) -> dict[str, Any]:
    if query.image is None:
        return {"text": query.text}
    try:
        data = base64.b64encode(Path(query.image).read_bytes()).decode()
    except OSError as error:
        raise DataError(
            f"Cannot read the image {query.image}: {error}. Check the path, or replace the file."
        ) from error
    return {"text": query.text, "image": {"data": data}}


def _groups(queries: Sequence[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """The queries in order, in groups whose pictures fit one body; a picture larger than that goes alone."""
    group: list[dict[str, Any]] = []
    size = 0
    for query in queries:
        more = len(query["image"]["data"]) if "image" in query else 0
        if group and size + more > BODY_BYTES:
            yield group
            group, size = [], 0
        group.append(query)
        size += more
    if group:
        yield group
