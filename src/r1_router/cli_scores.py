"""The commands that score: `eval` and `compare`; `r1_router.cli` adds them to `r1-router`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from r1_router.judge import Judged
    from r1_router.predictions import ResultsFile


def eval_(
    results: Annotated[list[Path], typer.Argument(help="Results files (.jsonl) of this project or of the reference.")],
    judge: Annotated[Path | None, typer.Option(metavar="CONFIG", help="Have this config's model judge, too.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures to this file, too.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the bootstrap.")] = 0,
) -> None:
    """Score results files by every metric that applies, with 95% bootstrap intervals."""
    import json

    from r1_router.files import write_atomically
    from r1_router.metrics import METRICS
    from r1_router.predictions import read_predictions
    from r1_router.scorecard import score_results

    found = [read_predictions(path) for path in results]  # a fault in any is told before one is scored
    judged = _judged(judge, found, seed) if judge else [None] * len(found)
    cards = [score_results(one, tuple(METRICS), seed, verdicts) for one, verdicts in zip(found, judged, strict=True)]
    for card in cards:
        heading = [f"{card.results.path}: {len(card.results.predictions)} answers"] if len(cards) > 1 else []
        typer.echo("\n".join([*heading, *card.lines()]))
    if json_file:
        write_atomically(json_file, json.dumps({"seed": seed, "files": [c.to_json() for c in cards]}, indent=2) + "\n")
    if any(verdicts and verdicts.failed for verdicts in judged):
        raise typer.Exit(1)


def _judged(config: Path, results: Sequence[ResultsFile], seed: int) -> list[Judged | None]:
    """Each file judged by the config's model, without its adapter: that one is tuned for other replies."""
    from dataclasses import replace
    from functools import partial

    from r1_router.config import load_config
    from r1_router.console import step_bars
    from r1_router.deployment import Deployment
    from r1_router.judge import Judge, judge_results

    loaded = load_config(config)
    loaded = replace(loaded, llm=replace(loaded.llm, adapter=None), variants={})
    load = partial(Deployment(loaded).llm, "direct")
    judge = Judge(load, loaded.llm.model, loaded.sampling, loaded.concurrency)
    with step_bars() as show:
        return [judge_results(judge, one, seed=seed, on_progress=partial(show, one.path.name)) for one in results]


def compare(
    a: Annotated[Path, typer.Argument(help="A results file (.jsonl).")],
    b: Annotated[Path, typer.Argument(help="Another on the same questions.")],
    metric: Annotated[
        list[str] | None, typer.Option(help="As `eval` names them, without @1; repeatable, flips are by the first.")
    ] = None,
    flips: Annotated[int, typer.Option(min=0, help="How many changed questions of each side to show.")] = 10,
    seed: Annotated[int, typer.Option(help="Seed of the bootstrap.")] = 0,
) -> None:
    """Compare two results files question by question: A - B with 95% paired intervals, and what flipped."""
    from r1_router import compare as comparing
    from r1_router.predictions import read_predictions

    found = comparing.compare(read_predictions(a), read_predictions(b), metric or comparing.DEFAULT_METRICS, seed)
    typer.echo(comparing.describe(found, flips))
