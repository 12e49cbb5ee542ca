"""Supervised fine-tuning on step rows, of a LoRA adapter or of all weights, on a CPU or a GPU; resumable.

A plain loop rather than transformers.Trainer: Trainer's checkpoints are folders written file by file, which a
kill can leave half done, and its sampler, loss, save and log would each have to be overridden here. The
batches are a function of (data, seed) and nothing else draws random numbers after the start, so matrices,
optimiser state and step count are all that a checkpoint holds. A resumed run ends with the same bytes on a CPU;
on a GPU with the same up to the order of sums, which no run repeats there.

The output folder: `adapter_model.safetensors` and `adapter_config.json` (peft's form, float16), or a whole model with
its tokenizer, `training_log.jsonl` (a row per step), `card.json` (how it was made), and, until all planned steps are
done, `checkpoint.safetensors`.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from r1_router import jsonl
from r1_router.files import sha256_of, write_atomically
from r1_router.training.data import Batch, Example, epoch_batches, load_examples, pad, with_pictures

if TYPE_CHECKING:
    import torch
    from torch.nn import Module

CHECKPOINT, LOG, CARD = "checkpoint.safetensors", "training_log.jsonl", "card.json"
PAD_ID = 0
"""Which token pads is of no account: no token sees one."""
NOT_IN_DIGEST = ("model", "data", "output", "gradient_checkpointing", "checkpoint_steps", "max_minutes", "command")
"""Settings that do not change the result, and paths: digests of the model's weights and of the data stand for them."""


@dataclass(frozen=True, slots=True)
class SftConfig:
    """One run: `model` is a folder with weights and tokenizer, `data` a JSONL file of step rows.

    `max_minutes` caps the training time over all resumed runs. The learning rate follows the planned steps
    all the same, so a run that meets the cap stops before its rate is low.
    """

    model: Path
    data: Path
    output: Path
    lora: bool = True  # false: all weights but those for images, in float32
    rank: int = 16
    alpha: int = 32
    learning_rate: float = 1.5e-3
    warmup_steps: int = 20
    final_rate: float = 0.02  # of learning_rate, at the last step
    batch_size: int = 8
    epochs: float = 1.0
    max_length: int = 512
    max_norm: float = 1.0
    dtype: str = (
        "float32"  # of the frozen weights and the products; bfloat16, or auto, is three times as fast where native
    )
    compile: bool = False  # 1.2 times as fast after half a minute; needs a C++ compiler
    gradient_checkpointing: bool = False  # less memory, more time
    seed: int = 0
    checkpoint_steps: int = 50
    max_minutes: float = math.inf
    command: str = ""  # for the card


@dataclass(frozen=True, slots=True)
class StepLog:
    """One optimiser step: mean loss per completion token, tokens with padding, seconds since the start."""

    step: int
    planned: int
    loss: float
    learning_rate: float
    tokens: int
    seconds: float


def train(config: SftConfig, on_step: Callable[[StepLog], None] | None = None) -> dict[str, Any]:
    """Train, or go on where an earlier call with these settings was killed; returns the card.

    Raises ConfigError for a setting or model that cannot be used, DataError for bad rows or a foreign checkpoint.
    """
    import torch

    from r1_router.training import checkpoint
    from r1_router.training.model import load_model, load_processor, save_weights

    run = run_digest(config)
    if card := finished_card(config):
        return card
    config.output.mkdir(parents=True, exist_ok=True)
    processor = load_processor(config.model)
    examples, dropped = load_examples(config.data, processor, config.max_length)
    batches = plan_batches(config, examples)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = load_model(config, device)
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(parameters, weight_decay=0.0, fused=True)
    saved = config.output / CHECKPOINT
    progress = checkpoint.load(saved, run, parameters, optimizer)
    log = _rewound_log(config.output / LOG, progress.step)
    started = time.monotonic() - progress.seconds
    while progress.step < len(batches) and progress.seconds < config.max_minutes * 60:
        chosen = [examples[index] for index in batches[progress.step]]
        batch = with_pictures(pad(chosen, PAD_ID), chosen, processor).to(device)
        rate = learning_rate(config, progress.step, len(batches))
        loss = _optimise(model, batch, optimizer, rate, config.max_norm)
        progress = checkpoint.Progress(run, progress.step + 1, time.monotonic() - started)
        log.append(StepLog(progress.step, len(batches), loss, rate, batch.ids.numel(), progress.seconds))
        jsonl.append(config.output / LOG, asdict(log[-1]))
        if progress.step % config.checkpoint_steps == 0:
            checkpoint.save(saved, progress, parameters, optimizer)
        if on_step:
            on_step(log[-1])
    checkpoint.save(saved, progress, parameters, optimizer)
    save_weights(model, processor, config.output)
    card = _card(config, run, log, len(batches)) | {"rows": len(examples), "rows_too_long": dropped}
    write_atomically(config.output / CARD, json.dumps(card, indent=2) + "\n")
    if progress.step == len(batches):
        saved.unlink()
    return card


def run_digest(config: SftConfig) -> str:
    """A name for the settings and inputs that determine the result: only an equal run may resume a checkpoint."""
    settings = {key: value for key, value in asdict(config).items() if key not in NOT_IN_DIGEST}
    parts = [settings, *map(sha256_of, _inputs(config))]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def _inputs(config: SftConfig) -> list[Path]:
    return [config.data, *sorted(config.model.glob("*.safetensors"))]


def plan_batches(config: SftConfig, examples: Sequence[Example]) -> list[list[int]]:
    """The example indices of every step, over all epochs; a fraction of an epoch cuts the last one short."""
    lengths = [len(example.ids) for example in examples]
    epochs = [epoch_batches(lengths, config.batch_size, config.seed, n) for n in range(math.ceil(config.epochs))]
    batches = [batch for epoch in epochs for batch in epoch]
    return batches[: max(1, round(config.epochs * len(epochs[0])))]


def learning_rate(config: SftConfig, step: int, planned: int) -> float:
    """The rate after `step` of `planned` steps: a linear rise, then half a cosine down to `final_rate` of the peak."""
    if step < config.warmup_steps:
        return config.learning_rate * (step + 1) / config.warmup_steps
    done = (step - config.warmup_steps) / max(1, planned - 1 - config.warmup_steps)
    return config.learning_rate * (config.final_rate + (1 - config.final_rate) * (1 + math.cos(math.pi * done)) / 2)


def _optimise(model: Module, batch: Batch, optimizer: torch.optim.Optimizer, rate: float, max_norm: float) -> float:
    """One step on one batch; returns the loss before it."""
    from torch.nn.utils import clip_grad_norm_

    from r1_router.training.model import completion_loss

    loss = completion_loss(model, batch)
    loss.backward()
    for group in optimizer.param_groups:
        group["lr"] = rate
        clip_grad_norm_(group["params"], max_norm)
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()


def _card(config: SftConfig, run: str, log: Sequence[StepLog], planned: int) -> dict[str, Any]:
    """How the adapter was made; the final loss is the mean over the last 20 steps, one batch being noisy."""
    last = log[-20:]
    settings = {key: value for key, value in asdict(config).items() if key not in NOT_IN_DIGEST}
    return {
        "command": config.command,
        "run": run,
        "model": config.model.name,
        "data": config.data.name,
        "data_sha256": sha256_of(config.data),
        "settings": settings,
        "planned_steps": planned,
        "steps": len(log),
        "minutes": round(log[-1].seconds / 60, 1),
        "final_loss": round(sum(row.loss for row in last) / len(last), 4),
    }


def finished_card(config: SftConfig) -> dict[str, Any] | None:
    """The card of this very run, if all its steps are done."""
    path = config.output / CARD
    if not (path.exists() and config.data.exists()):
        return None
    card: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return card if card["run"] == run_digest(config) and card["steps"] == card["planned_steps"] else None


def _rewound_log(path: Path, step: int) -> list[StepLog]:
    """The log up to `step`; rows written after the last checkpoint are dropped, as their steps will be taken again."""
    jsonl.repair_tail(path)
    rows = [StepLog(**row) for row in jsonl.read(path)][:step] if path.exists() else []
    jsonl.rewrite(path, map(asdict, rows))
    return rows
