"""A Step-GRPO run from its settings to the adapter, resumable from any kill, and on a CPU to the same weights.

The output folder: the adapter (or all weights) that did best, `last/` the weights of the last update where those are
others, `log.jsonl`, `card.json`, and, until all updates are done, `checkpoints/`.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from r1_router.errors import ConfigError, DataError, MissingDependency
from r1_router.files import sha256_of, write_atomically
from r1_router.training.grpo.config import NOT_IN_DIGEST, GrpoConfig, run_digest
from r1_router.training.swaps import Swapper
from r1_router.types import Encoder, Source

if TYPE_CHECKING:
    from r1_router.training.grpo.places import Loop
    from r1_router.training.grpo.prompts import Fitted
    from r1_router.training.grpo.record import Record

CARD, LOG, CHECKPOINTS, KEPT, LAST = "card.json", "log.jsonl", "checkpoints", "kept", "last"
MARK = "run.txt"
"""In a checkpoint that is whole, the digest of its run."""


@dataclass(frozen=True, slots=True)
class World:
    """What rewards and evaluation need: an encoder, the sources, and the loop's measures on dev questions.

    `evaluate(weights, step)` runs the loop with the weights of a folder. `name` is that of encoder, swapped names and
    `loop`, which the policy walks where it is to be asked at its own places.
    """

    encoder: Encoder
    name: str
    sources: tuple[Source, ...]
    evaluate: Callable[[Path, int], Mapping[str, float]] | None = None
    swapper: Swapper | None = None
    loop: Loop | None = None


@dataclass(frozen=True, slots=True)
class Listener:
    """Where a run's rows and alarms go while it runs."""

    on_row: Callable[[Mapping[str, Any]], None] = lambda row: None
    tell: Callable[[str], None] = print


def train(config: GrpoConfig, world: World, listener: Listener | None = None) -> dict[str, Any]:
    """Train, or go on where an earlier call with these settings was killed; returns the card.

    Raises ConfigError and DataError for what cannot be used, TrainingError where a watchdog stops the run.
    """
    run = run_digest(config, world.name)
    if card := finished_card(config, run):
        return card
    device = _device()
    from r1_router.training.grpo.assembly import build_trainer, fitting_prompts, step_rewards_of
    from r1_router.training.grpo.record import Judge, Record, Watch
    from r1_router.training.grpo.trainer import Hooks
    from r1_router.training.model import load_processor

    listener = listener or Listener()
    checkpoint = whole_checkpoint(config.output / CHECKPOINTS, run)
    record = Record(config.output / LOG, _step_of(checkpoint) if checkpoint else 0, listener.on_row)
    processor = load_processor(config.model)
    fitted, held_out = fitting_prompts(config, processor, world.swapper)
    judge = Judge(config.output / KEPT, processor, world.evaluate, record)
    trainer = build_trainer(
        config,
        step_rewards_of(config, world, processor),
        processor,
        (fitted.prompts, held_out.prompts if held_out else ()),
        world,
        Hooks(judge, lambda folder: write_atomically(folder / MARK, run)),
        config.output / CHECKPOINTS,
        device=device,
        resumed=checkpoint is not None,
    )
    trainer.add_callback(Watch(config, record, listener.tell))
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    judge.save(trainer.accelerator.unwrap_model(trainer.model), config.output / LAST)
    return _finished(config, _card(config, run, fitted, record), trainer.state.global_step, record.best_step())


def finished_card(config: GrpoConfig, run: str) -> dict[str, Any] | None:
    """The card of this very run, if all its updates are done."""
    path = config.output / CARD
    if not path.exists():
        return None
    card: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return card if card.get("run") == run and card["updates"] == config.updates else None


def whole_checkpoint(folder: Path, run: str) -> Path | None:
    """The last checkpoint that was written to its end; raises DataError where it is another run's."""
    marked = [path for path in folder.glob("checkpoint-*") if (path / MARK).exists()]
    if not marked:
        return None
    last = max(marked, key=_step_of)
    if (last / MARK).read_text(encoding="utf-8") != run:
        raise DataError(f"{folder} was left by a run with other settings or data; delete it or choose another output")
    return last


def _step_of(checkpoint: Path) -> int:
    return int(checkpoint.name.rpartition("-")[2])


def _finished(config: GrpoConfig, card: dict[str, Any], updates: int, best: int | None) -> dict[str, Any]:
    """Put the best weights in their place, write the card and, after the last update, clear what a resumption needs."""
    delivered = _deliver(config.output, best, updates)
    written = json.dumps(card | {"planned_updates": config.updates, "updates": updates, "best": delivered}, indent=2)
    write_atomically(config.output / CARD, written + "\n")
    if updates == config.updates:
        for folder in (CHECKPOINTS, KEPT):
            shutil.rmtree(config.output / folder, ignore_errors=True)
    told: dict[str, Any] = json.loads(written)
    return told


def _deliver(output: Path, best: int | None, updates: int) -> int:
    """Copy the best weights to the output folder, or the last where nothing was evaluated; gives their update."""
    source = output / KEPT / str(best)
    if best is None or best == updates or not source.is_dir():
        best, source = updates, output / LAST
    for path in source.iterdir():
        write_atomically(output / path.name, path.read_bytes())
    if best == updates:
        shutil.rmtree(output / LAST)
    return best


def _card(config: GrpoConfig, run: str, fitted: Fitted, record: Record) -> dict[str, Any]:
    """How the weights were made and what came of it: first and last ten updates' rewards, and every evaluation."""
    settings = {key: value for key, value in asdict(config).items() if key not in NOT_IN_DIGEST}
    rewards = [row["reward"] for row in record.updates]
    evaluations = [
        {name: value for name, value in row.items() if name in ("step", "eval_reward") or name.startswith("dev/")}
        for row in record.rows
        if "reward" not in row
    ]
    return {
        "command": config.command,
        "run": run,
        "model": config.model.name,
        "adapter": config.adapter and config.adapter.name,
        "data": config.data.name,
        "data_sha256": sha256_of(config.data),
        "settings": settings,
        "minutes": round(record.seconds / 60, 1),
        "prompts": len(fitted.prompts),
        "prompts_shortened": fitted.shortened,
        "prompts_dropped": fitted.dropped,
        "first_reward": _mean(rewards[:10]),
        "final_reward": _mean(rewards[-10:]),
        "evaluations": evaluations,
    }


def _mean(values: list[float]) -> float | None:
    return round(sum(values) / len(values), 4) if values else None


def _device() -> str:
    """Where to train; raises MissingDependency without TRL, ConfigError where several processes share the run."""
    try:
        import datasets  # noqa: F401
        import torch
        import trl  # noqa: F401
    except ModuleNotFoundError as error:
        raise MissingDependency(f"Step-GRPO needs {error.name}: pip install 'r1-router[train]'") from error
    if torch.cuda.device_count() > 1 or int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ConfigError("one process trains on one GPU: set CUDA_VISIBLE_DEVICES to one, or use --engine verl.")
    return "cuda" if torch.cuda.is_available() else "cpu"
