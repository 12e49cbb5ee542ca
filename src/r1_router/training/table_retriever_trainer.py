"""sentence-transformers' trainer as a table retriever is trained with it: columns, loss, arguments, evaluator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from r1_router.retrieval_quality import DEPTHS
from r1_router.training.table_retriever_data import Example, Material, gold_rows, rows_by_id, watched_passages

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from r1_router.training.table_retriever import RetrieverConfig
    from r1_router.training.table_retriever_record import Record

CHECKPOINTS = "checkpoints"
COSINE_SCALE = 20.0  # of unit vectors' scores, before the softmax over a batch; inner products are taken as they are


def make_trainer(
    config: RetrieverConfig, material: Material, examples: Sequence[Example], model: SentenceTransformer, record: Record
) -> Any:
    """The library's trainer, with its loss and evaluator; it reports to `record`."""
    from datasets import Dataset
    from sentence_transformers import SentenceTransformerTrainer
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
    from sentence_transformers.util import cos_sim, dot_score
    from transformers.trainer_callback import PrinterCallback

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
    return trainer


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
