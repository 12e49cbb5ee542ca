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
from r1_router.retrieval_quality import DEPTHS
from r1_router.training.table_retriever_data import Example, Material, make_examples, watched_passages
from r1_router.types import TABLE

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

CARD, LOG, CURVE, CHECKPOINTS, RUN = "card.json", "log.jsonl", "curve.svg", "checkpoints", "run.txt"
NOT_IN_DIGEST = ("model", "output", "held_out", "command", "evaluation_passages")
"""Paths and what does not change the weights: digests of the model's weights and of the examples stand for them."""
COSINE_SCALE = 20.0  # of unit vectors' scores, before the softmax over a batch; inner products are taken as they are


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
    examples = make_examples(material, config.negatives, config.mined_from, config.seed)
    model = _start(config)
    run = _digest(config, examples, model)
    if card := finished_card(config.output, run):
        return card
    trainer, record, checkpoint = _assemble(config, material, examples, model, run, on_row)
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


def _assemble(
    config: RetrieverConfig,
    material: Material,
    examples: Sequence[Example],
    model: SentenceTransformer,
    run: str,
    on_row: Callable[[dict[str, Any]], None],
) -> tuple[Any, Any, Path | None]:
    """The trainer, its record, and the checkpoint to go on from."""
    from datasets import Dataset
    from sentence_transformers import SentenceTransformerTrainer
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
    from sentence_transformers.util import cos_sim, dot_score
    from transformers.trainer_callback import PrinterCallback

    from r1_router.training.table_retriever_record import Record

    checkpoint = _last_checkpoint(config.output, run)
    step = int(checkpoint.name.rpartition("-")[2]) if checkpoint else 0
    record = Record(config.output / LOG, config.output / CURVE, step, on_row)
    unit = config.towers == 1 or config.pooling == "mean"
    scores = {"scale": COSINE_SCALE, "similarity_fct": cos_sim} if unit else {"scale": 1.0, "similarity_fct": dot_score}
    columns = _columns(examples)
    trainer = SentenceTransformerTrainer(
        model=model,
        args=_arguments(config, list(columns), bool(material.held_out)),
        train_dataset=Dataset.from_dict(columns),
        loss=MultipleNegativesRankingLoss(model, **scores),
        evaluator=_evaluator(config, material) if material.held_out else None,
        callbacks=[record],
    )
    trainer.remove_callback(PrinterCallback)
    return trainer, record, checkpoint


def _columns(examples: Sequence[Example]) -> dict[str, list[str]]:
    """The trainer's columns, in the order the loss reads them: question, passage, then each negative."""
    fewest = min(len(example.negatives) for example in examples)
    negatives = {f"negative_{n}": [example.negatives[n] for example in examples] for n in range(fewest)}
    return {"question": [one.question for one in examples], "passage": [one.passage for one in examples], **negatives}


def _arguments(config: RetrieverConfig, columns: Sequence[str], watched: bool) -> Any:
    from sentence_transformers.sentence_transformer.training_args import (
        BatchSamplers,
        SentenceTransformerTrainingArguments,
    )

    return SentenceTransformerTrainingArguments(
        output_dir=str(config.output / CHECKPOINTS),
        num_train_epochs=config.epochs,
        per_device_train_batch_size=config.batch_size,
        learning_rate=config.learning_rate,
        warmup_steps=config.warmup_share,  # below 1 it is a share of the steps
        batch_sampler=BatchSamplers.NO_DUPLICATES,  # two questions on one passage would be each other's negatives
        router_mapping={column: "query" if column == "question" else "document" for column in columns},
        eval_strategy="steps" if watched else "no",
        eval_steps=config.evaluate_steps,
        save_steps=config.evaluate_steps,
        save_total_limit=1,
        logging_steps=10,
        report_to="none",
        disable_tqdm=True,
        dataloader_pin_memory=False,
        seed=config.seed,
    )


def _evaluator(config: RetrieverConfig, material: Material) -> Any:
    from sentence_transformers.sentence_transformer.evaluation import InformationRetrievalEvaluator

    from r1_router.training.table_retriever_data import gold_rows, rows_by_id

    passages = watched_passages(material, config.evaluation_passages, config.seed)
    ids, rows = list(passages), rows_by_id(passages)
    asked = {str(number): one for number, one in enumerate(material.held_out)}
    return InformationRetrievalEvaluator(
        queries={number: one.query.text for number, one in asked.items()},
        corpus=passages,
        relevant_docs={number: {ids[row] for row in gold_rows(one, rows)} for number, one in asked.items()},
        accuracy_at_k=list(DEPTHS),
        precision_recall_at_k=[1],
        map_at_k=[10],
        write_csv=False,
    )


def _last_checkpoint(output: Path, run: str) -> Path | None:
    """The last whole checkpoint of this run; the trainer's state is written last. A kill leaves at most a torn one."""
    mark = output / RUN
    whole = [path.parent for path in output.glob(f"{CHECKPOINTS}/checkpoint-*/trainer_state.json")]
    if whole and mark.is_file() and mark.read_text(encoding="utf-8") != run:
        raise DataError(f"{output} was left by a run with other settings or data; delete it or choose another output.")
    write_atomically(mark, run)
    return max(whole, key=lambda path: int(path.name.rpartition("-")[2]), default=None)


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
