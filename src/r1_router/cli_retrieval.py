"""The commands about retrieval: `eval-retrieval`, and `train table-retriever`; `r1_router.cli` adds them."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from r1_router.config import DEFAULT_CONFIG

if TYPE_CHECKING:
    from rich.table import Table

    from r1_router.retrieval_quality import Outcome

ConfigOption = Annotated[Path, typer.Option("--config", help="The deployment's YAML file.")]


def eval_retrieval(
    questions: Annotated[str, typer.Option("--questions", help="A benchmark of the config, or a question file.")],
    k: Annotated[str, typer.Option("--k", help="The depths that count as found.")] = "1,5,10",
    source: Annotated[
        list[str] | None, typer.Option(help="A source's tag or name, repeatable; all with gold passages by default.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The file of single results; under results/ by default.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first N questions.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the bootstrap.")] = 0,
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """How often each knowledge base finds a gold passage for the gold sub-questions, with 95% intervals."""
    from r1_router import jsonl
    from r1_router.config import load_config
    from r1_router.console import console
    from r1_router.deployment import Deployment
    from r1_router.questions import results_name
    from r1_router.retrieval_quality import ask_bases, read_depths

    depths, name = read_depths(k), results_name(questions)
    deployment = Deployment(load_config(config))
    asked = deployment.questions(questions, limit)
    tags = {one.tag: one.name for one in deployment.sources()}
    names = [tags.get(one, one) for one in source or ()]
    outcomes = ask_bases(deployment.knowledge_bases(), asked, max(depths), names)
    path = out or deployment.config.results_dir / "retrieval" / f"{config.stem}_{name}.jsonl"
    jsonl.rewrite(path, (outcome.to_json() for found in outcomes.values() for outcome in found))
    console.print(_hits_table(name, outcomes, depths, seed))
    failed = sum(outcome.error is not None for found in outcomes.values() for outcome in found)
    console.print(f"{sum(map(len, outcomes.values()))} searches in {path}", soft_wrap=True)
    if failed:
        console.print(f"{failed} of them failed and count as misses; their `error` says why.")


def table_retriever(
    name: Annotated[str, typer.Option(help="An entry of the config's `training` section.")] = "table-retriever",
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Tune a base's encoder on gold hops, watched by held-out questions; a run that was cut short goes on."""
    from r1_router.config import load_config
    from r1_router.console import console
    from r1_router.retrieving import train_retriever

    try:
        card = train_retriever(load_config(config), name, "r1-router " + " ".join(sys.argv[1:]))
    except KeyboardInterrupt:
        console.print("Stopped. The same command goes on from the last checkpoint.")
        raise typer.Exit(130) from None
    console.print_json(data=card)


def _hits_table(name: str, outcomes: Mapping[str, Sequence[Outcome]], depths: Sequence[int], seed: int) -> Table:
    from rich.table import Table

    from r1_router.retrieval_quality import hits, hits_text

    table = Table(title=f"{name}, a gold passage among the first k", title_justify="left")
    table.add_column("base", no_wrap=True)
    for title in ("queries", *(f"hit@{depth}" for depth in depths)):
        table.add_column(title, justify="right")
    for source, found in outcomes.items():
        shares = (text.replace(" ", "\n", 1) for text in hits_text(hits(found, depths, seed)))
        table.add_row(source, str(len(found)), *shares)
    return table
