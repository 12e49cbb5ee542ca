"""`r1-router steps <command>`: reads flags and hands over; `r1_router.cli` adds them to `r1-router`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

steps_app = typer.Typer(no_args_is_help=True, help="Step data for training: check it, and change its form.")


@steps_app.command()
def check(
    file: Annotated[Path, typer.Argument(help="Nested step rows (.jsonl).")],
    rows: Annotated[int, typer.Option(min=0, help="How many of the rows that break a rule are told.")] = 10,
    config: Annotated[
        Path | None, typer.Option("--config", help="The deployment that made them: its retrievers, passages shown.")
    ] = None,
) -> None:
    """Hold a file to the rules of the published form and count its oddities; exit code 1 where a rule is broken."""
    from r1_router import jsonl
    from r1_router.synthesis.check import check_rows

    _require_file(file)
    if config is None:
        report = check_rows(jsonl.read(file))
    else:
        from r1_router.config import load_config
        from r1_router.deployment import Deployment

        loaded = load_config(config)
        report = check_rows(jsonl.read(file), Deployment(loaded).sources(), loaded.shown)
    for line in report.lines(rows):
        typer.echo(line)
    if not report.sound:
        raise typer.Exit(1)


@steps_app.command()
def flatten(
    file: Annotated[Path, typer.Argument(help="Nested step rows (.jsonl).")],
    to: Annotated[Path, typer.Option("--to", help="The file to write, .jsonl or .parquet.")],
) -> None:
    """Write one row a step, as trainers read them: chat prompt, images, target as JSON text."""
    from r1_router import jsonl
    from r1_router.synthesis.flat import write_flat

    _require_file(file)
    write_flat(to, jsonl.read(file))
    typer.echo(f"written to {to}")


@steps_app.command()
def nest(
    file: Annotated[Path, typer.Argument(help="Flat step rows (.jsonl or .parquet).")],
    to: Annotated[Path, typer.Option("--to", help="The file to write, .jsonl.")],
) -> None:
    """Put flat rows together to the nested ones that they were made of, whatever their order."""
    from r1_router import jsonl
    from r1_router.errors import ConfigError
    from r1_router.synthesis.flat import nested, read_flat

    _require_file(file)
    if to.suffix != ".jsonl":
        raise ConfigError(f"--to: nested rows are kept in .jsonl files, found {to}.")
    jsonl.rewrite(to, nested(read_flat(file)))
    typer.echo(f"written to {to}")


def _require_file(path: Path) -> None:
    from r1_router.errors import DataError

    if not path.is_file():
        raise DataError(f"no file {path}: give the path of step rows.")
