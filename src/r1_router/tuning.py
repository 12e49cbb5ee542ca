"""Step-GRPO of a config's adapter: its rewards' encoder, its sources, and the routed loop on dev questions."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from r1_router import console, jsonl
from r1_router.bases import quieten_transformers
from r1_router.config import Config
from r1_router.curves import write_curves
from r1_router.deployment import Deployment
from r1_router.errors import ConfigError
from r1_router.prepare import name_swapper
from r1_router.run import run_questions
from r1_router.schema import read_dataclass
from r1_router.summary import summarise
from r1_router.training.grpo.config import GrpoConfig
from r1_router.training.grpo.run import LOG, Listener, World, train
from r1_router.training.grpo.watchdogs import REWARD

if TYPE_CHECKING:
    from r1_router.training.grpo.places import Loop

CURVES = "curves.html"
METHOD = "r1-router"
DEV_SCORES = ("f1_recall", "token_f1", "routing_accuracy")


def train_step_grpo(config: Config, name: str, command: str) -> dict[str, Any]:
    """Train the adapter `name` of the config's `training` section by Step-GRPO, with a bar; gives the card."""
    from r1_router.training.grpo.board import board_of
    from r1_router.training.progress import update_bar

    grpo = grpo_config(config, name, command)
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
    quieten_transformers()
    deployment = Deployment(config)
    with console.errors.status("loading the encoder and the knowledge bases"):
        world = make_world(deployment, grpo, config.training[name].questions)
    board = board_of(grpo.output)
    with update_bar(grpo.updates, console.errors) as show:

        def on_row(row: Mapping[str, Any]) -> None:
            show(row)
            board(row)
            if REWARD not in row or row["step"] == grpo.updates:  # an evaluation, or the end
                write_curves(grpo.output / LOG, grpo.output / CURVES)

        return train(grpo, world, Listener(on_row, console.errors.print))


def make_world(deployment: Deployment, grpo: GrpoConfig, questions: Path | None) -> World:
    """The config's encoder, sources and dev questions; raises ConfigError where names are to be swapped in no world.

    The names are those of `questions`, the Factbook questions that the step rows come of.
    """
    encoder, name = deployment.text_encoder()
    swapper = None
    if grpo.swap_share:
        if questions is None:
            raise ConfigError("grpo.swap_share: names are known of the Factbook world's `questions`; name that file.")
        swapper = name_swapper(deployment, list(jsonl.read(questions)))
        name += f" {digest_of(swapper)}"
    loop = None
    if grpo.live:
        loop = live_loop(deployment, questions)
        name += f" {digest_of((loop.settings, loop.questions, deployment.sources_digest()))}"
    return World(encoder, name, deployment.sources(), dev_scores(deployment, grpo), swapper, loop)


def live_loop(deployment: Deployment, questions: Path | None) -> Loop:
    """The config's routed loop over its bases; raises ConfigError where the rows' questions are not named."""
    from r1_router.training.grpo.places import Loop

    if questions is None:
        raise ConfigError("grpo.live: the policy walks from the rows' `questions`; name that file.")
    settings = replace(deployment.settings(METHOD), constrained=False)
    return Loop(settings, deployment.knowledge_bases(), deployment.questions(str(questions)))


def digest_of(value: object) -> str:
    """A short name for a plain value."""
    return hashlib.sha256(repr(value).encode()).hexdigest()[:16]


def grpo_config(config: Config, name: str, command: str = "") -> GrpoConfig:
    """The settings of the adapter `name`; raises ConfigError where the config has none."""
    known = [key for key, section in config.training.items() if section.grpo]
    if name not in known:
        raise ConfigError(f"--adapter: the config trains no {name!r} by Step-GRPO; there are {', '.join(known)}.")
    values = {**config.training[name].grpo, "command": command}
    return read_dataclass(GrpoConfig, values, f"training.{name}.grpo", config.root)


def dev_scores(deployment: Deployment, grpo: GrpoConfig) -> Callable[[Path, int], Mapping[str, float]] | None:
    """What answers the dev questions with the weights of a folder; None where the config names no dev questions."""
    if grpo.dev is None:
        return None
    config, bases = deployment.config, deployment.knowledge_bases()
    questions = deployment.questions(grpo.dev, grpo.dev_questions, sample_seed=grpo.seed)

    def evaluate(weights: Path, step: int) -> dict[str, float]:
        model, adapter = (grpo.model, weights) if grpo.lora else (weights, None)
        here = replace(config.llm, engine="transformers", model=str(model), adapter=adapter)
        tuned = Deployment(replace(config, llm=here))
        path = grpo.output / "dev" / f"{step}.jsonl"
        path.unlink(missing_ok=True)
        outcome = run_questions(
            tuned.method(METHOD), questions, tuned.llm(METHOD), bases, path=path, concurrency=config.concurrency
        )
        if outcome.interrupted:
            raise KeyboardInterrupt
        names = {"benchmark": str(grpo.dev), "method": METHOD, "model": config.llm.name}
        summary = summarise(outcome.trajectories, **names, seconds_per_question=None)
        scores = {name: summary[name] for name in DEV_SCORES if summary[name] is not None}
        return scores | {"malformed": outcome.progress.malformed_share}

    return evaluate
