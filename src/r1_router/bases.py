"""The knowledge bases of a config: their encoders, how they are built, and how they are loaded."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from r1_router.config import Config
from r1_router.elsewhere import build_elsewhere, is_elsewhere, open_elsewhere, server_digest, store_digest
from r1_router.encoder_kinds import best_device, make_encoder
from r1_router.errors import ConfigError
from r1_router.sections import EncoderConfig, SourceConfig
from r1_router.types import Retriever, Source

if TYPE_CHECKING:
    from r1_router.retrieval.vectors import PassageEncoder

OnBuild = Callable[[str, int, int], None]
"""Called with a source's name, the passages encoded and their number."""


class KnowledgeBases:
    """A config's knowledge bases and their encoders, each loaded when first asked for and then kept."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self._encoders: dict[str, PassageEncoder] = {}
        self._loaded: dict[Source, Retriever] = {}

    def load(self) -> dict[Source, Retriever]:
        """Every source's knowledge base; raises KnowledgeBaseError for one that is not built."""
        if not self._loaded:
            for section in self.config.sources:
                self._loaded[source_of(section)] = self._load(section)
        return self._loaded

    def build(self, on_build: OnBuild = lambda name, done, total: None) -> dict[str, int]:
        """Build the knowledge bases that are not there yet; gives the number of passages in each."""
        return {section.name: self._build(section, on_build) for section in self.config.sources}

    def sources(self) -> tuple[Source, ...]:
        """The configured sources, in their order."""
        return tuple(source_of(section) for section in self.config.sources)

    def digest(self) -> dict[str, Any]:
        """What each knowledge base was made from and how it is searched, as plain values."""
        return {section.name: self._digest(section) for section in self.config.sources}

    def text_encoder(self) -> tuple[PassageEncoder, str]:
        """The first encoder of texts, and a name for what it is; raises ConfigError where there is none."""
        for name, section in self.config.encoders.items():
            if section.kind == "sentence":
                return self._encoder(name), f"{section.model} {section.max_tokens}"
        raise ConfigError("encoders: sub-questions are compared by an encoder of the kind sentence; add one.")

    def _digest(self, section: SourceConfig) -> list[Any]:
        if section.url is not None:
            return [section.purpose, *server_digest(section.url, source_of(section))]
        made = _folder_digest(section.folder) if section.store is None else store_digest(self.config.root, section)
        return _source_digest(section, self.config.encoders[section.encoder], made)

    def _load(self, section: SourceConfig) -> Retriever:
        """The base as it is searched: fused by rank and reranked where the config says so."""
        base: Any = self._open(section)
        if section.fusion == "rrf":
            from r1_router.retrieval.fusion import RankFused, open_lexical

            base = RankFused([base, open_lexical(section.folder, source_of(section))], source_of(section))
        if section.reranker is not None:
            from r1_router.retrieval.rerank import CrossEncoderScorer, Reranked

            scorer = CrossEncoderScorer(model_path(self.config, section.reranker), device=best_device())
            base = Reranked(base, scorer, source_of(section), depth=section.rerank_depth)
        found: Retriever = base
        return found

    def _open(self, section: SourceConfig) -> Retriever:
        from r1_router.retrieval.knowledge_base import load
        from r1_router.retrieval.pyserini import is_pyserini, open_pyserini

        if is_elsewhere(section):
            return open_elsewhere(self.config.root, section, source_of(section), self._encoder)
        encoder = self._encoder(section.encoder)
        if is_pyserini(section.folder):
            return open_pyserini(section.folder, section.passages, source_of(section), encoder)
        return load(
            section.folder,
            source_of(section),
            encoder,
            lexical_weight=section.lexical_weight,
            mmap=section.mmap,
            search=section.search,
            gpu=section.gpu,
        )

    def _build(self, section: SourceConfig, on_build: OnBuild) -> int:
        from r1_router.retrieval.build import Making, build
        from r1_router.retrieval.manifest import IndexSettings
        from r1_router.retrieval.pyserini import is_pyserini, row_count

        if is_elsewhere(section):
            return build_elsewhere(self.config.root, section, source_of(section), self._encoder, on_build)
        if is_pyserini(section.folder):  # prebuilt
            return row_count(section.folder)
        index = IndexSettings(section.index, section.shard_rows, section.dtype)
        lexical = section.lexical_weight > 0 or section.fusion == "rrf"
        built = build(
            section.passages,
            section.folder,
            source_of(section),
            self._encoder(section.encoder),
            image_root=section.image_root,
            making=Making(index, lexical, section.vectors, section.language),
            progress=lambda done, total: on_build(section.name, done, total),
        )
        on_build(section.name, built.rows, built.rows)
        return built.rows

    def _encoder(self, name: str) -> PassageEncoder:
        if name not in self._encoders:
            self._encoders[name] = encoder_of(self.config, name)
        return self._encoders[name]


def encoder_of(config: Config, name: str) -> PassageEncoder:
    """The encoder of that name, loaded anew."""
    quieten_transformers()
    return make_encoder(config.encoders[name], lambda model: model_path(config, model))


def worker_encoder(config: Config, name: str) -> PassageEncoder:
    """The encoder of that name for one of several workers: it sees one GPU, so of `devices` it takes the kind alone."""
    section = config.encoders[name]
    kinds = tuple(dict.fromkeys(device.partition(":")[0] for device in section.devices))
    return encoder_of(replace(config, encoders={name: replace(section, devices=kinds)}), name)


def source_of(section: SourceConfig) -> Source:
    """The source as the model sees it."""
    return Source(section.name, section.tag, section.purpose)


def model_path(config: Config, name: str) -> str:
    """A folder or file under the root where there is one, else a hub name; one under `models_dir` is a folder."""
    folder = config.root / name
    if folder.exists():
        return str(folder)
    if folder.parent == config.models_dir:
        raise ConfigError(f"no model at {folder}; `r1-router models` fetches the embedded ones.")
    return name


def quieten_transformers() -> None:
    """No bars and remarks of the library's own between ours."""
    from transformers.utils import logging

    logging.disable_progress_bar()
    logging.set_verbosity_error()


def _source_digest(section: SourceConfig, encoder: EncoderConfig, made: str) -> list[Any]:
    kept = [section.index, section.search, section.dtype]
    asked = {
        "query_prompt": encoder.query_prompt,
        "clip": str(encoder.clip) if encoder.kind == "clip" else None,
        "fusion": section.fusion if section.fusion != "weights" else None,
        "reranker": [section.reranker, section.rerank_depth] if section.reranker else None,
        "index": None if kept == ["Flat", "", "float32"] else kept,
    }
    set_here = {key: value for key, value in asked.items() if value is not None}
    return [section.purpose, section.lexical_weight, made, *([set_here] if set_here else [])]


def _folder_digest(folder: Path) -> str:
    from r1_router.retrieval.manifest import read_manifest
    from r1_router.retrieval.pyserini import is_pyserini, made_from

    if is_pyserini(folder):
        return made_from(folder)
    inputs = read_manifest(folder).inputs
    return hashlib.sha256(repr(sorted(asdict(inputs).items())).encode()).hexdigest()[:16]
