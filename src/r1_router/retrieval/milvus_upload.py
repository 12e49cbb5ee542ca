"""Uploads passages and their vectors into a Milvus collection, going on where an earlier upload was cut short."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from r1_router.errors import DataError, KnowledgeBaseError
from r1_router.retrieval.embedding import Job, Progress, embed_shards, open_vectors
from r1_router.retrieval.manifest import PASSAGES
from r1_router.retrieval.milvus import (
    NOTE_SUFFIX,
    TIMEOUT,
    MadeFrom,
    Place,
    connect,
    count_rows,
    milvus_errors,
    note_text,
    read_note,
)
from r1_router.retrieval.store import Row, open_store
from r1_router.retrieval.vectors import PassageEncoder
from r1_router.types import Source

CHUNK = 256  # passages sent in one call: what a killed upload sends again at most
TEXT_BYTES = 65_535  # the longest text that Milvus stores
ID_BYTES = 1_024
NOTE_DIM = 2  # a collection must have a vector, even one that only holds a note


def upload(
    job: Job,
    place: Place,
    source: Source,
    encoder: PassageEncoder,
    *,
    index: str = "FLAT",
    embedded: Progress = lambda done, total: None,
    uploaded: Progress = lambda done, total: None,
) -> int:
    """Embed what the job lacks and bring it into the collection; gives the number of passages there.

    Rows are numbered as the job's are and sent in order, so the number that is there tells where to go on. `index` is
    a kind of index that Milvus knows. Raises DataError naming a passage that Milvus cannot hold, KnowledgeBaseError
    where the collection was made from something else: in a shared store nothing is dropped on its own.
    """
    if place.is_embedded:
        Path(place.uri).parent.mkdir(parents=True, exist_ok=True)
    client = connect(place)
    done = _begin(client, place, _made_from(job, source, index))  # a wrong collection is found before hours of encoding
    embed_shards(job, encoder, embedded)
    vectors, store = open_vectors(job), open_store(job.folder / PASSAGES)
    uploaded(done, job.rows)
    for start in range(done, job.rows, CHUNK):
        stop = min(start + CHUNK, job.rows)
        rows = zip(store.rows(start, stop), vectors.rows(start, stop), strict=True)
        records = [_record(number, *row) for number, row in enumerate(rows, start)]
        with milvus_errors(place, KnowledgeBaseError):
            client.upsert(place.collection, records, timeout=TIMEOUT)
        uploaded(stop, job.rows)
    with milvus_errors(place, KnowledgeBaseError):
        client.flush(place.collection, timeout=TIMEOUT)
    return job.rows


def _made_from(job: Job, source: Source, index: str) -> MadeFrom:
    return MadeFrom(source.name, source.tag, job.dim, job.dtype, index, job.rows, **job.made_from)


def _begin(client: Any, place: Place, made: MadeFrom) -> int:
    """Make the collection and its note where they are not there; gives the first row that is to be sent."""
    with milvus_errors(place, KnowledgeBaseError):
        if not client.has_collection(place.collection, timeout=TIMEOUT):
            _write_note(client, place, made)  # first: a collection without a note is somebody else's
            _create(client, place.collection, made.dim, made.index)
    if read_note(client, place) != made:
        raise KnowledgeBaseError(
            f"The collection {place.collection!r} at {place.uri} was made from something else. "
            "Name another one in the config, or drop it."
        )
    there = count_rows(client, place)
    return made.rows if there == made.rows else there // CHUNK * CHUNK


def _write_note(client: Any, place: Place, made: MadeFrom) -> None:
    name = place.collection + NOTE_SUFFIX
    if not client.has_collection(name, timeout=TIMEOUT):
        _create(client, name, NOTE_DIM, "FLAT")
    note = {"row": 0, "passage_id": "", "text": note_text(made), "vector": [0.0] * NOTE_DIM}
    client.upsert(name, [note], timeout=TIMEOUT)


def _create(client: Any, name: str, dim: int, index: str) -> None:
    from pymilvus import DataType, MilvusClient

    schema = MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
    schema.add_field("row", DataType.INT64, is_primary=True)
    schema.add_field("passage_id", DataType.VARCHAR, max_length=ID_BYTES)
    schema.add_field("text", DataType.VARCHAR, max_length=TEXT_BYTES)
    schema.add_field("vector", DataType.FLOAT_VECTOR, dim=dim)
    indexes = MilvusClient.prepare_index_params()
    indexes.add_index("vector", index_type=index, metric_type="IP")
    client.create_collection(name, schema=schema, index_params=indexes, consistency_level="Strong", timeout=TIMEOUT)


def _record(number: int, row: Row, vector: Any) -> dict[str, Any]:
    for key, limit in (("id", ID_BYTES), ("text", TEXT_BYTES)):
        if len(row[key].encode()) > limit:
            raise DataError(f"Line {number + 1}: {key!r} has over {limit} bytes, more than Milvus stores. Cut it.")
    return {"row": number, "passage_id": row["id"], "text": row["text"], "vector": vector}
