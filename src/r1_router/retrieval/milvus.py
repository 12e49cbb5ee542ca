"""A knowledge base in a Milvus collection: a cluster by its URI, or the embedded Lite form by its `.db` file."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from r1_router.errors import KnowledgeBaseDown, KnowledgeBaseError, MissingDependency
from r1_router.retrieval.together import Together
from r1_router.retrieval.vectors import PassageEncoder
from r1_router.types import Passage, Query, Source

TIMEOUT = 60.0
"""Seconds for one call; the client retries within them."""
MOST = 16_384
"""Passages that Milvus gives for one query at most."""
NOTE_SUFFIX = "_made_from"
"""The collection of this name holds one row: what the vectors beside it were made from."""
INSTALL = 'pip install -e ".[milvus]"'


@dataclass(frozen=True, slots=True)
class MadeFrom:
    """What a collection is made from: equal values give the same collection."""

    source: str
    tag: str
    dim: int
    dtype: str
    index: str
    rows: int
    encoder: dict[str, Any]
    passages_sha256: str
    images_sha256: str


@dataclass(frozen=True, slots=True)
class Place:
    """Where a collection is: `uri` and `token` as the Milvus client takes them."""

    uri: str
    collection: str
    token: str = ""

    @property
    def is_embedded(self) -> bool:
        """Whether it is a file of the Lite form, not a server."""
        return "://" not in self.uri


class MilvusBase:
    """A searchable source in a collection; get one by `open_base`."""

    def __init__(self, client: Any, place: Place, source: Source, encoder: PassageEncoder, rows: int) -> None:
        self.source = source
        self._client = client
        self._place = place
        self._encoder = encoder
        self._rows = rows
        self._together = Together(self.search_many)

    def __len__(self) -> int:
        return self._rows

    async def search(self, query: Query, k: int) -> list[Passage]:
        """The `k` nearest passages, best first; what is awaited at once is one call."""
        return await self._together.search(query, k)

    def search_many(self, queries: Sequence[Query], k: int) -> list[list[Passage]]:
        """For each query its `k` nearest passages by inner product, best first; fewer where there are fewer."""
        if not queries:
            return []
        vectors = self._encoder.encode(queries)
        with milvus_errors(self._place, KnowledgeBaseDown):
            found = self._client.search(
                self._place.collection,
                data=list(vectors),
                anns_field="vector",
                limit=min(k, MOST, len(self)),
                output_fields=["passage_id", "text"],
                timeout=TIMEOUT,
            )
        return [[self._passage(hit) for hit in hits] for hits in found]

    def _passage(self, hit: Any) -> Passage:
        return Passage(hit["entity"]["passage_id"], hit["entity"]["text"], float(hit["distance"]), self.source)


def open_base(place: Place, source: Source, encoder: PassageEncoder) -> MilvusBase:
    """The knowledge base in the collection, for queries by `encoder`.

    Raises KnowledgeBaseError where it is missing, half uploaded, or was made for another source or by another encoder.
    """
    client = connect(place)
    made = read_note(client, place)
    wanted = {"source": source.name, "tag": source.tag, "encoder": dict(encoder.settings), "dim": encoder.dim}
    differ = [key for key, value in wanted.items() if getattr(made, key) != value]
    if differ:
        found = ", ".join(f"{key} {getattr(made, key)!r} against {wanted[key]!r}" for key in differ)
        raise KnowledgeBaseError(f"{_named(place)} was made otherwise ({found}). Name another collection and build it.")
    uploaded = count_rows(client, place)
    if uploaded != made.rows:
        raise KnowledgeBaseError(f"{_named(place)} has {uploaded} of {made.rows} passages. Go on: r1-router build")
    return MilvusBase(client, place, source, encoder, made.rows)


def connect(place: Place) -> Any:
    """A client; raises MissingDependency, or KnowledgeBaseDown where nobody answers."""
    try:
        from pymilvus import MilvusClient
    except ImportError as error:
        raise MissingDependency(f"A store in Milvus needs pymilvus: {INSTALL}") from error
    for library in ("pymilvus", "milvus_lite"):  # they log tracebacks of what they raise
        logging.getLogger(library).setLevel(logging.CRITICAL)
    with milvus_errors(place, KnowledgeBaseDown):
        return MilvusClient(place.uri, token=place.token, timeout=TIMEOUT)


def read_note(client: Any, place: Place) -> MadeFrom:
    """What the collection was made from; raises KnowledgeBaseError where there is none, or it is somebody else's."""
    name = place.collection + NOTE_SUFFIX
    with milvus_errors(place, KnowledgeBaseDown):
        rows = []
        if client.has_collection(name, timeout=TIMEOUT):
            client.load_collection(name, timeout=TIMEOUT)  # a server that was started again has none loaded
            rows = client.query(name, filter="row == 0", output_fields=["text"], timeout=TIMEOUT)
    if not rows:
        raise KnowledgeBaseError(
            f"{_named(place)} is no knowledge base. Build it: r1-router build; if others use it, name another one."
        )
    try:
        return MadeFrom(**json.loads(rows[0]["text"]))
    except (ValueError, TypeError) as error:
        raise KnowledgeBaseError(f"{name} at {place.uri} is no note of this version ({error!r}). Drop both.") from error


def note_text(made: MadeFrom) -> str:
    """What `read_note` reads."""
    return json.dumps(asdict(made), sort_keys=True)


def count_rows(client: Any, place: Place) -> int:
    """The passages in the collection, which is loaded for it, those of a moment ago included."""
    with milvus_errors(place, KnowledgeBaseDown):
        client.load_collection(place.collection, timeout=TIMEOUT)
        (found,) = client.query(
            place.collection, filter="", output_fields=["count(*)"], consistency_level="Strong", timeout=TIMEOUT
        )
    return int(found["count(*)"])


@contextmanager
def milvus_errors(place: Place, kind: type[KnowledgeBaseError]) -> Iterator[None]:
    """Turn what the Milvus client raises into an error that names the collection."""
    from pymilvus import MilvusException

    try:
        yield
    except MilvusException as error:
        raise kind(f"{_named(place)}: {error.message} Is it up, and used by no other process?") from error


def _named(place: Place) -> str:
    return f"The collection {place.collection!r} at {place.uri}"
