"""Training a retriever by a config: its base's passages, its questions' gold hops, and a bar."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from r1_router import console
from r1_router.bases import model_path, quieten_transformers
from r1_router.config import Config
from r1_router.errors import ConfigError, DataError
from r1_router.questions import QuestionFile, read_questions
from r1_router.retrieval.inputs import passage_files
from r1_router.retrieval.store import open_store
from r1_router.retrieval_quality import GoldQuery, gold_queries
from r1_router.schema import read_dataclass
from r1_router.training.table_retriever import RetrieverConfig, train
from r1_router.training.table_retriever_data import Material


def train_retriever(config: Config, name: str, command: str) -> dict[str, Any]:
    """Train the retriever `name` of the config's `training` section, with a bar; gives the card."""
    settings, questions = retriever_config(config, name, command)
    quieten_transformers()
    material = Material(
        train=_asked(questions, settings.source),
        held_out=_asked(settings.held_out, settings.source) if settings.held_out else (),
        passages=_passages(config, settings.source),
    )
    if not material.train:
        raise DataError(f"{questions}: no question has a hop of the {settings.source} with `gold_ids`.")
    with console.step_bars() as show:
        return train(settings, material, lambda row: show(name, row["step"], row["planned"]))


def retriever_config(config: Config, name: str, command: str = "") -> tuple[RetrieverConfig, Path]:
    """The settings of the retriever `name` and its questions; raises ConfigError where the config has none."""
    known = [key for key, section in config.training.items() if section.retriever]
    if name not in known:
        have = ", ".join(known) or "none: configs/factbook.yaml shows one in its `training` section"
        raise ConfigError(f"--name: the config trains no retriever {name!r}; there are {have}.")
    section = config.training[name]
    values = {**section.retriever, "command": command}
    values["model"] = model_path(config, str(values.get("model", "")))
    assert section.questions is not None  # the config was checked
    return read_dataclass(RetrieverConfig, values, f"training.{name}.retriever", config.root), section.questions


def _asked(questions: Path, source: str) -> list[GoldQuery]:
    rows = read_questions(QuestionFile(questions.stem, questions, questions.parent))
    return [asked for asked in gold_queries(rows) if asked.source == source]


def _passages(config: Config, source: str) -> dict[str, str]:
    """The base's passages by id, as they are indexed.

    Raises ConfigError where no base has that name, DataError where its file is missing.
    """
    for section in config.sources:
        if section.name == source:
            return {row["id"]: row["text"] for path in passage_files(section.passages) for row in open_store(path)}
    raise ConfigError(f"retriever.source: no base is named {source!r}.")
