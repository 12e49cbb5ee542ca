"""Knowledge bases that are not kept in a folder: behind a retrieval server (`url`), or in Milvus (`store`)."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable
from dataclasses import MISSING, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from r1_router.errors import ConfigError
from r1_router.sections import SourceConfig, StoreConfig
from r1_router.types import Retriever, Source

if TYPE_CHECKING:
    from r1_router.retrieval.milvus import Place
    from r1_router.retrieval.vectors import PassageEncoder

LITE_SUFFIX = ".db"
_NEEDED = {None: ("passages", "folder", "encoder"), "store": ("passages", "encoder", "vectors"), "url": ()}
"""The keys that each way of keeping a knowledge base needs."""
_TAKEN = {
    "store": {"store", *_NEEDED["store"], "dtype", "image_root", "reranker", "rerank_depth"},
    "url": {"url"},
}
"""All keys, beside the source's name, tag and purpose, that go with a place that is no folder."""


def check_kept(where: str, source: SourceConfig) -> None:
    """Raise ConfigError unless the source has the keys that go with where it is kept, and no others."""
    if source.url is not None and source.store is not None:
        raise ConfigError(f"{where}: give either url or store, a knowledge base is kept in one place.")
    kept = "url" if source.url is not None else "store" if source.store is not None else None
    for field in fields(source):
        is_given = field.default is not MISSING and getattr(source, field.name) != field.default
        if field.name in _NEEDED[kept] and not is_given:
            raise ConfigError(f"{where}: the key {field.name!r} is missing; only a source with a url does without it.")
        if kept and is_given and field.name not in _TAKEN[kept]:
            raise ConfigError(f"{where}: a source with {kept!r} takes no {field.name!r}; leave out one of the two.")
    if source.url is not None and not re.fullmatch(r"https?://[^/\s]+\S*", source.url):
        raise ConfigError(f"{where}.url: expected a URL such as http://host:8100, found {source.url!r}.")
    if source.store is not None:
        _check_store(f"{where}.store", source.store)


def is_elsewhere(section: SourceConfig) -> bool:
    """Whether the source is kept in no folder of its own."""
    return section.url is not None or section.store is not None


def open_elsewhere(
    root: Path, section: SourceConfig, source: Source, encoder: Callable[[str], PassageEncoder]
) -> Retriever:
    """The knowledge base; a server is not asked for before the first search."""
    if section.url is not None:
        from r1_router.retrieval.remote import RemoteBase

        return RemoteBase(section.url, source)
    from r1_router.retrieval.milvus import open_base

    return open_base(_place(root, section), source, encoder(section.encoder))


def build_elsewhere(
    root: Path,
    section: SourceConfig,
    source: Source,
    encoder: Callable[[str], PassageEncoder],
    on_build: Callable[[str, int, int], None],
) -> int:
    """Upload what the store lacks; gives the number of passages there are."""
    if section.url is not None:
        from r1_router.retrieval.remote import RemoteBase

        rows = len(RemoteBase(section.url, source))
    else:
        rows = _upload(root, section, source, encoder(section.encoder), on_build)
    on_build(section.name, rows, rows)
    return rows


def server_digest(url: str, source: Source) -> list[Any]:
    """What the served knowledge base was made from and how it is searched, as its server says."""
    from r1_router.retrieval.remote import RemoteBase

    return RemoteBase(url, source).about().made_from


def store_digest(root: Path, section: SourceConfig) -> str:
    """16 hex digits of what the collection was made from."""
    from r1_router.retrieval.milvus import connect, note_text, read_note

    place = _place(root, section)
    return hashlib.sha256(note_text(read_note(connect(place), place)).encode()).hexdigest()[:16]


def _upload(
    root: Path,
    section: SourceConfig,
    source: Source,
    encoder: PassageEncoder,
    on_build: Callable[[str, int, int], None],
) -> int:
    from r1_router.retrieval.embedding import open_job
    from r1_router.retrieval.milvus_upload import upload

    assert section.vectors is not None, "the config is checked for it"
    job = open_job(section.passages, section.vectors, encoder, image_root=section.image_root, dtype=section.dtype)
    return upload(
        job,
        _place(root, section),
        source,
        encoder,
        index=_store(section).index,
        embedded=lambda done, total: on_build(section.name, done, total),
        uploaded=lambda done, total: on_build(f"{section.name}, upload", done, total),
    )


def _check_store(where: str, store: StoreConfig) -> None:
    if "://" not in store.milvus and not store.milvus.endswith(LITE_SUFFIX):
        raise ConfigError(
            f"{where}.milvus: expected a URI such as http://host:19530, or the path of a {LITE_SUFFIX} file, "
            f"found {store.milvus!r}."
        )
    if not re.fullmatch(r"[A-Za-z_]\w{0,200}", store.collection, re.ASCII):
        raise ConfigError(f"{where}.collection: letters, digits and _ make a name, found {store.collection!r}.")


def _place(root: Path, section: SourceConfig) -> Place:
    from r1_router.retrieval.milvus import Place

    store = _store(section)
    if store.token_env is not None and store.token_env not in os.environ:
        raise ConfigError(f"store.token_env: the environment variable {store.token_env} is not set; export it.")
    token = os.environ[store.token_env] if store.token_env else ""
    uri = store.milvus if "://" in store.milvus else str(root / store.milvus)
    return Place(uri, store.collection, token)


def _store(section: SourceConfig) -> StoreConfig:
    assert section.store is not None, "the config is checked for it"
    return section.store
