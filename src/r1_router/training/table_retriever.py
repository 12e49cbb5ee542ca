"""Fine-tuning of a table retriever on questions with gold passages: in-batch and mined hard negatives, resumable.

The trainer and the loss are sentence-transformers'. One model for both sides (`towers: 1`) is saved as such a model and
named by a `sentence` encoder; two towers, Open-WikiTable's way, are saved as the bi-encoder that a `table` encoder
loads. The output folder also has `log.jsonl`, `curve.svg`, `card.json` and, until all is done, `checkpoints/`.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from r1_router.errors import ConfigError, DataError
from r1_router.files import write_atomically
from r1_router.training.table_retriever_data import Example, Material, make_examples
from r1_router.training.table_retriever_trainer import CHECKPOINTS, make_trainer
from r1_router.types import TABLE

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

CARD, LOG, CURVE, RUN = "card.json", "log.jsonl", "curve.svg", "run.txt"
NOT_IN_DIGEST = ("model", "output", "held_out", "command", "evaluation_passages")
"""Paths and what does not change the weights: digests of the model's weights and of the examples stand for them."""


@dataclass(frozen=True, slots=True)
class RetrieverConfig:
    """One run: `source` names the config's base, `model` is a folder or a hub name, a BERT where `towers` is 2.

    Every `evaluate_steps` a checkpoint is written, and the `held_out` questions are asked of `evaluation_passages`
    passages, theirs among them: hits are higher than among all, and cost seconds instead of minutes.
    """

    model: str
    output: Path
    source: str = TABLE.name
    held_out: Path | None = None
    towers: int = 1
    pooling: str = "pooler"  # of two towers; mean suits a BERT that was tuned for sentences
    epochs: float = 4.0
    batch_size: int = 16
    learning_rate: float = 2e-5
    warmup_share: float = 0.1
    negatives: int = 1
    mined_from: int = 10
    max_tokens: int = 256
    question_tokens: int = 64  # of two towers
    evaluate_steps: int = 50
    evaluation_passages: int = 500
    seed: int = 0
    command: str = ""  # for the card


def train(
    config: RetrieverConfig, material: Material, on_row: Callable[[dict[str, Any]], None] = lambda row: None
) -> dict[str, Any]:
    """Train, or go on where an earlier call with these settings was killed; returns the card.

    Raises ConfigError for a model that cannot be used, DataError for questions of another base or a foreign checkpoint.
    """
    from r1_router.training.table_retriever_model import bi_encoder_of, require_trainer

    require_trainer()
    from r1_router.training.table_retriever_record import Record

    examples = make_examples(material, config.negatives, config.mined_from, config.seed)
    model = _start(config)
    run = _digest(config, examples, model)
    if card := finished_card(config.output, run):
        return card
    checkpoint = _last_checkpoint(config.output, run)
    step = _step_of(checkpoint) if checkpoint else 0
    record = Record(config.output / LOG, config.output / CURVE, step, on_row)
    trainer = make_trainer(config, material, examples, model, record)
    if checkpoint is None and material.held_out:
        trainer.evaluate()
    trainer.train(resume_from_checkpoint=checkpoint and str(checkpoint))
    if config.towers == 1:
        model.save_pretrained(str(config.output), create_model_card=False)
    else:
        bi_encoder_of(model).save(config.output)
    card = _card(config, run, len(examples), trainer.state.global_step, record)
    write_atomically(config.output / CARD, json.dumps(card, indent=2) + "\n")
    shutil.rmtree(config.output / CHECKPOINTS)
    return card


def finished_card(output: Path, run: str) -> dict[str, Any] | None:
    """The card of this very run, if it was finished."""
    path = output / CARD
    card: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return card if card.get("run") == run else None


def _start(config: RetrieverConfig) -> SentenceTransformer:
    import torch

    from r1_router.training.table_retriever_model import sentence_model, two_towers

    torch.manual_seed(config.seed)
    if config.towers == 1:
        return sentence_model(config.model, config.max_tokens)
    if config.towers != 2 or config.pooling not in ("pooler", "mean"):
        raise ConfigError(f"retriever: `towers` is 1 or 2, `pooling` pooler or mean; found {config}.")
    lengths = {"question_tokens": config.question_tokens, "max_tokens": config.max_tokens}
    return two_towers(config.model, pooling=config.pooling, **lengths)


def _last_checkpoint(output: Path, run: str) -> Path | None:
    """The last whole checkpoint of this run; the trainer's state is written last. A kill leaves at most a torn one."""
    mark = output / RUN
    whole = [path.parent for path in output.glob(f"{CHECKPOINTS}/checkpoint-*/trainer_state.json")]
    if whole and mark.is_file() and mark.read_text(encoding="utf-8") != run:
        raise DataError(f"{output} was left by a run with other settings or data; delete it or choose another output.")
    write_atomically(mark, run)
    return max(whole, key=_step_of, default=None)


def _step_of(checkpoint: Path) -> int:
    """The trainer names its checkpoints by their steps."""
    return int(checkpoint.name.rpartition("-")[2])


def _digest(config: RetrieverConfig, examples: Sequence[Example], model: SentenceTransformer) -> str:
    """A name for what determines the result: only an equal run may go on from a checkpoint."""
    from r1_router.retrieval.vectors import weights_fingerprint

    settings = {key: value for key, value in asdict(config).items() if key not in NOT_IN_DIGEST}
    parts = [settings, weights_fingerprint(model), *map(asdict, examples)]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def _card(config: RetrieverConfig, run: str, examples: int, steps: int, record: Any) -> dict[str, Any]:
    """How the retriever was made; `held_out` are the hits among the passages that were watched."""
    settings = {key: value for key, value in asdict(config).items() if key not in NOT_IN_DIGEST}
    return {
        "command": config.command,
        "run": run,
        "model": Path(config.model).name,
        "settings": settings,
        "examples": examples,
        "steps": steps,
        "minutes": round(record.rows[-1]["seconds"] / 60, 1) if record.rows else None,
        "held_out": record.last_hits,
    }
