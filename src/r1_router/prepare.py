"""Step data for supervised training, made from a benchmark's gold trajectories and its knowledge bases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from r1_router import jsonl
from r1_router.deployment import Deployment
from r1_router.factbook.splits import passages_outside
from r1_router.prompts import load_prompts
from r1_router.retrieval.knowledge_base import KnowledgeBase
from r1_router.training.steps import StepMaker
from r1_router.types import Passage, Query, Source

MARGIN = 5  # passages fetched beyond those retrieved at inference, to stand in for the held-out ones left out
BATCH = 64


def make_steps(deployment: Deployment, questions: Path, output: Path, kind: str, seed: int) -> Counter[str]:
    """Write step rows of `kind` (router or rag) for every question of the file; counts by step type.

    The questions are the training split of the Factbook world: passages of its other splits are left out.
    """
    config = deployment.config
    bases: dict[Source, Any] = dict(deployment.knowledge_bases())

    def search(source: Source, queries: Sequence[Query]) -> list[list[Passage]]:
        base: KnowledgeBase = bases[source]
        batches = [queries[at : at + BATCH] for at in range(0, len(queries), BATCH)]
        return [found for batch in batches for found in base.search_many(batch, config.retrieved + MARGIN)]

    rows = [row | {"image": row["image"] and str(questions.parent / row["image"])} for row in jsonl.read(questions)]
    maker = StepMaker(load_prompts("trained"), tuple(bases), search, config.shown, passages_outside("train"))
    made = maker.rag_rows(rows, seed) if kind == "rag" else maker.router_rows(rows, seed)
    output.parent.mkdir(parents=True, exist_ok=True)
    jsonl.rewrite(output, made)
    return Counter(row["step_type"] for row in made)
