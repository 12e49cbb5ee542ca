"""`r1-router train <command>`: adapters tuned on gold steps, and by rewarding sampled ones."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from r1_router.cli_retrieval import table_retriever
from r1_router.config import DEFAULT_CONFIG
from r1_router.errors import ConfigError

VERL_CONFIG = Path("configs/verl_stepgrpo.yaml")
train_app = typer.Typer(no_args_is_help=True, help="Train the router, or a base's retriever.")
train_app.command("table-retriever")(table_retriever)

ConfigOption = Annotated[Path, typer.Option("--config", help="The deployment's YAML file.")]


class Engine(StrEnum):
    """What trains: TRL in this process, or verl on a cluster."""

    TRL = "trl"
    VERL = "verl"


@train_app.command()
def sft(
    adapter: Annotated[str, typer.Option(help="An adapter of the config's `training` section.")] = "router",
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Tune an adapter on gold steps, making the step rows first; a run that was cut short goes on."""
    from r1_router.commands import train_adapter
    from r1_router.config import load_config
    from r1_router.console import console

    card = train_adapter(load_config(config), adapter, _command())
    console.print_json(data=card)


@train_app.command("step-grpo")
def step_grpo(
    overrides: Annotated[list[str] | None, typer.Argument(help="verl: keys of its config, as key=value.")] = None,
    adapter: Annotated[str, typer.Option(help="An adapter of the config's `training` section.")] = "router-grpo",
    engine: Annotated[Engine, typer.Option(help="trl: in this process; verl: on many GPUs.")] = Engine.TRL,
    show: Annotated[bool, typer.Option("--print", help="verl: tell the command, and start nothing.")] = False,
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Improve an adapter by rewarding sampled steps (Step-GRPO); a run that was cut short goes on."""
    if engine is Engine.VERL:
        from r1_router.training.verl import launch

        own = VERL_CONFIG if config == DEFAULT_CONFIG else config
        raise typer.Exit(launch(own, overrides or [], show=show, say=typer.echo))
    if overrides or show:
        raise ConfigError("key=value and --print are for --engine verl; TRL's settings stand in the config.")
    from r1_router.config import load_config
    from r1_router.console import console
    from r1_router.tuning import train_step_grpo

    try:
        card = train_step_grpo(load_config(config), adapter, _command())
    except KeyboardInterrupt:
        console.print("Stopped. The same command goes on from the last checkpoint.")
        raise typer.Exit(130) from None
    console.print_json(data=card)


@train_app.command()
def merge(
    output: Annotated[Path, typer.Option(help="The model folder to make.")],
    adapter: Annotated[Path | None, typer.Option(help="An adapter's folder; the config's by default.")] = None,
    dtype: Annotated[str, typer.Option(help="Of the merged weights.")] = "float32",
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Merge an adapter into the config's model: a plain model folder, for what reads no adapters."""
    from r1_router.bases import model_path, quieten_transformers
    from r1_router.config import load_config
    from r1_router.console import console
    from r1_router.training.merge import merge_adapter

    loaded = load_config(config)
    chosen = adapter or loaded.llm.adapter
    if chosen is None:
        raise ConfigError("--adapter: the config names no adapter; give the folder of one.")
    quieten_transformers()
    merge_adapter(Path(model_path(loaded, loaded.llm.model)), chosen, output, dtype)
    console.print(f"{output}: {chosen.name} merged", soft_wrap=True)


def _command() -> str:
    return "r1-router " + " ".join(sys.argv[1:])
