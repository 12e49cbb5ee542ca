"""How often the knowledge bases find a gold passage for the gold sub-questions, dense alone and as configured.

.venv/bin/python benchmarks/retrieval.py [--benchmark factbook] [--config configs/factbook.yaml]
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from r1_router.config import DEFAULT_CONFIG, Config, load_config
from r1_router.deployment import Deployment
from r1_router.types import IMAGE, NONE, Query, Question

DEPTHS = (1, 3, 5, 10)


def gold_queries(questions: Sequence[Question]) -> dict[str, list[tuple[Query, set[str]]]]:
    """By source: the gold sub-questions (with the picture, for the image source) and their gold passage ids."""
    found: dict[str, list[tuple[Query, set[str]]]] = defaultdict(list)
    for question in questions:
        for hop in question.extra["hops"]:
            if hop["source"] != NONE:
                image = question.image if hop["source"] == IMAGE.name else None
                found[hop["source"]].append((Query(hop["query"], image), set(hop["gold_ids"])))
    return found


def hit_rates(config: Config, benchmark: str) -> list[tuple[str, int, list[float]]]:
    """(source, number of sub-questions, hit@k for each depth)."""
    deployment = Deployment(config)
    asked = gold_queries(deployment.questions(benchmark))
    rows = []
    for source, base in deployment.knowledge_bases().items():
        searchable: Any = base
        queries = asked[source.name]
        found = searchable.search_many([query for query, _ in queries], max(DEPTHS))
        ranks = [
            next((rank for rank, passage in enumerate(passages) if passage.id in gold), max(DEPTHS))
            for passages, (_, gold) in zip(found, queries, strict=True)
        ]
        rows.append((source.name, len(ranks), [sum(rank < k for rank in ranks) / len(ranks) for k in DEPTHS]))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--benchmark", default="factbook")
    parser.add_argument("--config", type=Path, default=DEFAULT_CONFIG)
    args = parser.parse_args()
    config = load_config(args.config)
    dense = replace(config, sources=tuple(replace(source, lexical_weight=0.0) for source in config.sources))
    table = Table("base", "index", "sub-questions", *(f"hit@{k}" for k in DEPTHS))
    for name, variant in (("dense", dense), ("as configured", config)):
        for source, count, rates in hit_rates(variant, args.benchmark):
            table.add_row(source, name, str(count), *(f"{rate:.3f}" for rate in rates))
    Console().print(table)


if __name__ == "__main__":
    main()
