"""How often a gold passage is found: Factbook's sub-questions, and OTT-QA's human-written questions.

    python benchmarks/retrieval.py [--config configs/factbook.yaml] [--benchmark factbook]
    python benchmarks/retrieval.py --world ../shared/ottqa_world [--tune] [--rerank]

The Factbook bases are those of the config, built before. OTT-QA's are indexed here, their vectors kept in `--output`.
`--tune` trains a table retriever on half of the pages, for half an hour on two cores, and tests it on the other half;
`--rerank` does so with a cross-encoder that puts the first 20 tables in its own order.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ottqa_retrieval import Measured, measure_ottqa
from rich.console import Console
from rich.table import Table

from r1_router import jsonl
from r1_router.config import DEFAULT_CONFIG, Config, load_config
from r1_router.deployment import Deployment
from r1_router.retrieval.fusion import RankFused, open_lexical
from r1_router.retrieval_quality import DEPTHS, ask_bases, hits_of_places, hits_text
from r1_router.types import Retriever, Source

WORLD = "OTTQA_WORLD"


def measure_factbook(config: Config, benchmark: str) -> Iterator[Measured]:
    """BM25 alone, vectors alone, both by rank, and as the config has it."""
    questions = Deployment(config).questions(benchmark)
    for name, bases in _variants(config):
        for source, outcomes in ask_bases(bases, questions, max(DEPTHS)).items():
            yield Measured(benchmark, source, name, [outcome.place for outcome in outcomes])


def _variants(config: Config) -> Iterator[tuple[str, dict[Source, Retriever]]]:
    def searched(**keys: Any) -> dict[Source, Retriever]:
        sources = tuple(replace(section, **keys) for section in config.sources if section.lexical_weight)
        return Deployment(replace(config, sources=sources)).knowledge_bases()

    by_words: dict[Source, Retriever] = {
        source: RankFused([open_lexical(section.folder, source)], source)
        for source, section in zip(Deployment(config).sources(), config.sources, strict=True)
        if section.lexical_weight
    }
    yield "BM25", by_words
    yield "vectors", searched(lexical_weight=0.0)
    yield "both by rank", searched(lexical_weight=0.0, fusion="rrf")
    yield "as configured", Deployment(config).knowledge_bases()


def table_of(measured: Sequence[Measured]) -> Table:
    """One row a way of searching, its shares with their intervals."""
    table = Table("base", "questions", "n", "searched by", *(f"hit@{k}" for k in DEPTHS))
    for one in measured:
        shares = hits_text(hits_of_places(one.places, DEPTHS))
        table.add_row(one.base, one.questions, str(len(one.places)), one.way, *shares)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, default=DEFAULT_CONFIG)
    parser.add_argument("--benchmark", default="factbook")
    world = os.environ.get(WORLD)
    parser.add_argument("--world", type=Path, default=world and Path(world), help=f"OTT-QA's folder, or {WORLD}")
    parser.add_argument("--tune", action="store_true", help="train a table retriever on half of the pages")
    parser.add_argument("--rerank", action="store_true", help="train a cross-encoder on half of the pages")
    parser.add_argument("--output", type=Path, default=Path("runs/retrieval"))
    args = parser.parse_args()
    measured = list(measure_factbook(load_config(args.config), args.benchmark))
    if args.world is None:
        print(f"OTT-QA was left out: give its folder as --world, or as {WORLD}.")
    else:
        measured += measure_ottqa(args.world, args.output, tune=args.tune, rerank=args.rerank)
    args.output.mkdir(parents=True, exist_ok=True)
    rows = ({"questions": one.questions, "base": one.base, "way": one.way, "places": one.places} for one in measured)
    jsonl.rewrite(args.output / "places.jsonl", rows)
    Console(width=140).print(table_of(measured))


if __name__ == "__main__":
    main()
