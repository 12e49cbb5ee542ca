"""Step data for supervised training, made from the Factbook world's gold trajectories and knowledge bases."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from r1_router import jsonl
from r1_router.deployment import Deployment, image_path
from r1_router.errors import ConfigError
from r1_router.factbook.source import load_regions
from r1_router.factbook.splits import country_names, passages_outside, place_names, region_names
from r1_router.files import sha256_of, write_atomically
from r1_router.prompts import load_prompts
from r1_router.retrieval.knowledge_base import KnowledgeBase
from r1_router.sections import TrainingConfig
from r1_router.training.steps import StepMaker
from r1_router.training.swaps import Swapper
from r1_router.types import TEXT, Passage, Query, Source

MARGIN = 5  # passages fetched beyond those retrieved at inference, to stand in for the held-out ones left out
BATCH = 64
PROMPTS = "trained"


def make_steps(deployment: Deployment, section: TrainingConfig, output: Path, seed: int) -> None:
    """Write the section's step rows to `output`, unless they are there and were made from the same things.

    The questions are the training split of the Factbook world: passages of its other splits are left out.
    """
    made_from = _made_from(deployment, section, seed)
    note = output.with_suffix(".made.json")
    if output.is_file() and note.is_file() and json.loads(note.read_text("utf-8")) == made_from:
        return
    assert section.questions is not None, "the config is checked for it"
    rows = list(jsonl.read(section.questions))
    swapper = name_swapper(deployment, rows)
    config, bases = deployment.config, deployment.knowledge_bases()
    folder = section.questions.parent
    rows = [row | {"image": row["image"] and image_path(folder, row["image"])} for row in rows]
    search = _search(bases, config.retrieved + MARGIN)
    maker = StepMaker(
        load_prompts(PROMPTS), tuple(bases), search, config.shown, passages_outside("train"), swapper, config.lower_case
    )
    make = maker.rag_rows if section.kind == "rag" else maker.router_rows
    jsonl.rewrite(output, make(rows, seed))
    write_atomically(note, json.dumps(made_from, indent=1) + "\n")


def name_swapper(deployment: Deployment, rows: Sequence[Mapping[str, Any]]) -> Swapper:
    """What swaps the training countries' names for others made of the places in the questions `rows`.

    Raises ConfigError where the knowledge bases are not the Factbook's: of others neither splits nor names are known.
    """
    code = str(next(_texts(deployment), {}).get("id")).split("/")[1:2]  # of text/CODE/FIELD/NUMBER
    if not code or code[0] not in load_regions().of:
        raise ConfigError(
            "training: the kinds router and rag and swap_share know the Factbook world alone. For bases of your own: "
            "`r1-router synthesize`, then an adapter of the kind steps, and step-grpo with swap_share: 0."
        )
    return Swapper(country_names(_texts(deployment), "train"), region_names("train"), place_names(rows))


def _texts(deployment: Deployment) -> Iterator[dict[str, Any]]:
    """The rows of the text knowledge base's passages file."""
    path = next((section.passages for section in deployment.config.sources if section.tag == TEXT.tag), None)
    return jsonl.read(path) if path and path.is_file() else iter(())


def _search(bases: Mapping[Source, Any], k: int) -> Any:
    """The batched search that a StepMaker takes."""

    def search(source: Source, queries: Sequence[Query]) -> list[list[Passage]]:
        base: KnowledgeBase = bases[source]
        batches = [queries[at : at + BATCH] for at in range(0, len(queries), BATCH)]
        return [found for batch in batches for found in base.search_many(batch, k)]

    return search


def _made_from(deployment: Deployment, section: TrainingConfig, seed: int) -> dict[str, Any]:
    """All that the rows depend on, as plain values."""
    made_from = {
        "kind": section.kind,
        "questions": section.questions and sha256_of(section.questions),
        "prompts": asdict(load_prompts(PROMPTS)),
        "shown": deployment.config.shown,
        "lower_case": deployment.config.lower_case,
        "retrieved": deployment.config.retrieved,
        "sources": deployment.sources_digest(),
        "seed": seed,
    }
    plain: dict[str, Any] = json.loads(json.dumps(made_from))
    return plain
