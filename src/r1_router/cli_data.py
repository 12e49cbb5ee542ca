"""The commands that bring things: models, checkpoints, released prompts; `r1_router.cli` adds them to `r1-router`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from r1_router.config import DEFAULT_CONFIG

prompts_app = typer.Typer(no_args_is_help=True, help="Prompt sets.")


def models(
    config: Annotated[Path, typer.Option("--config", help="The deployment's YAML file.")] = DEFAULT_CONFIG,
) -> None:
    """Fetch the small embedded models that are not there yet."""
    from r1_router.commands import fetch_models
    from r1_router.config import load_config
    from r1_router.console import console

    for name, folder in fetch_models(load_config(config)).items():
        console.print(f"{name}: {folder}", soft_wrap=True)


def checkpoints(
    names: Annotated[list[str] | None, typer.Argument(help="Names, or `retrievers`; by default a list.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Fetch without asking.")] = False,
    folder: Annotated[Path, typer.Option(help="Where they go, a folder each.")] = Path("checkpoints"),
) -> None:
    """Say what released checkpoints weigh and under which licence they are, and fetch those that are named."""
    from r1_router.checkpoints import CHECKPOINTS, describe, download, look_up, named

    listings = [look_up(name, folder) for name in named(names or [*CHECKPOINTS])]
    typer.echo(describe(listings))
    if not names:
        typer.echo("Name those to fetch.")
        return
    if not yes:
        typer.confirm(f"Fetch {sum(one.size for one in listings) / 1e9:.1f} GB into {folder}?", abort=True)
    for listing in listings:
        typer.echo(f"{listing.name}: {download(listing, folder)}")


@prompts_app.command(name="import")
def import_(
    steps: Annotated[Path, typer.Argument(help="The published step data (.jsonl).")],
    to: Annotated[Path, typer.Option(help="The folder of the new set.")] = Path("prompts/released"),
) -> None:
    """Make the prompt set that released checkpoints were trained with, out of the published step data."""
    from r1_router import jsonl
    from r1_router.errors import DataError
    from r1_router.prompts.released import import_released

    if not steps.is_file():
        raise DataError(f"no file {steps}: give the path of the published step data.")
    for name, same in import_released(jsonl.read(steps), to).items():
        typer.echo(f"{name}: {'byte for byte the reference' if same else 'not the text that the reference uses'}")
    typer.echo(f"written to {to}; name that folder under `prompts` in a config")


def synthesize(
    config: Annotated[Path, typer.Option("--config", help="The deployment's YAML file.")] = DEFAULT_CONFIG,
    only: Annotated[list[str] | None, typer.Option("--set", help="Repeatable; all sets by default.")] = None,
    questions: Annotated[Path | None, typer.Option(help="A question file in place of the config's sets.")] = None,
    generate: Annotated[
        int | None, typer.Option(min=1, help="In place of the sets: N questions tried for from the knowledge bases.")
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Put files aside that other settings made.")] = False,
) -> None:
    """Make step data: a teacher's rollouts of every set, filtered, cut into rows; a run that was cut short goes on."""
    from r1_router.config import load_config
    from r1_router.deployment import Deployment
    from r1_router.sections import SynthesisSet
    from r1_router.synthesize import Synthesis, with_set

    loaded = load_config(config)
    if questions is not None or generate is not None:
        name = questions.stem if questions else "generated"
        asked = str(questions.resolve()) if questions else ""
        loaded = with_set(loaded, name, SynthesisSet(asked, generate=generate))
    synthesis = Synthesis(Deployment(loaded), fresh=fresh)
    for name in only or synthesis.config.sets:
        synthesis.rollouts(name)
        for reason, count in synthesis.keep(name).most_common():
            typer.echo(f"{name}: {count} dropped, {reason}")
    for part, rows in synthesis.combine().items():
        typer.echo(f"{synthesis.config.out / f'steps_{part}.jsonl'}: {rows} rows")
