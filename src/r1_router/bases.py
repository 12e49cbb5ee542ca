"""The knowledge bases of a config: their encoders, how they are built, and how they are loaded."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from r1_router.config import Config
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
        return {section.name: _source_digest(section) for section in self.config.sources}

    def _load(self, section: SourceConfig) -> Retriever:
        from r1_router.retrieval.knowledge_base import load

        encoder = self._encoder(section.encoder)
        return load(section.folder, source_of(section), encoder, lexical_weight=section.lexical_weight)

    def _build(self, section: SourceConfig, on_build: OnBuild) -> int:
        from r1_router.retrieval.build import build

        built = build(
            section.passages,
            section.folder,
            source_of(section),
            self._encoder(section.encoder),
            image_root=section.image_root,
            progress=lambda done, total: on_build(section.name, done, total),
        )
        on_build(section.name, built.rows, built.rows)
        return built.rows

    def _encoder(self, name: str) -> PassageEncoder:
        if name not in self._encoders:
            self._encoders[name] = self._load_encoder(self.config.encoders[name])
        return self._encoders[name]

    def _load_encoder(self, section: EncoderConfig) -> PassageEncoder:
        from r1_router.retrieval.encoders import FusedEncoder, SentenceEncoder

        quieten_transformers()
        text = SentenceEncoder(model_path(self.config, section.model), max_tokens=section.max_tokens)
        if section.image_model is None:
            return text
        from r1_router.retrieval.images import EfficientNetEncoder

        return FusedEncoder(EfficientNetEncoder(section.image_model), text, image_weight=section.image_weight)


def source_of(section: SourceConfig) -> Source:
    """The source as the model sees it."""
    return Source(section.name, section.tag, section.purpose)


def model_path(config: Config, name: str) -> str:
    """A folder under the root where there is one, else a hub name; a name under `models_dir` is a folder."""
    folder = config.root / name
    if folder.is_dir():
        return str(folder)
    if folder.parent == config.models_dir:
        raise ConfigError(f"no model at {folder}; `r1-router models` fetches the embedded ones.")
    return name


def quieten_transformers() -> None:
    """No bars and remarks of the library's own between ours."""
    from transformers.utils import logging

    logging.disable_progress_bar()
    logging.set_verbosity_error()


def _source_digest(section: SourceConfig) -> list[Any]:
    from r1_router.retrieval.manifest import read_manifest

    inputs = read_manifest(section.folder).inputs
    made = hashlib.sha256(repr(sorted(asdict(inputs).items())).encode()).hexdigest()[:16]
    return [section.purpose, section.lexical_weight, made]
