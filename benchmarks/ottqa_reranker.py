"""A cross-encoder trained on the learning half of OTT-QA, and the order that it puts a search's first tables in."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from r1_router.retrieval.rerank import CrossEncoderScorer

Scores = NDArray[np.float32]
Pair = tuple[str, str]
DEPTH = 20
"""Passages read for each question."""
NEGATIVES = 4
"""Of a question's first passages, those that are not gold, for each that is."""
EPOCHS, BATCH, LEARNING_RATE = 2, 16, 5e-5


def reranker(
    start: Path, folder: Path, questions: Sequence[str], found: Scores, gold: Sequence[set[int]], texts: Sequence[str]
) -> CrossEncoderScorer:
    """The cross-encoder in `folder`, trained from the encoder `start` where none is there.

    `found` are the search's scores, shape (questions, passages); `gold` each question's passages.
    """
    if not (folder / "model.safetensors").is_file():
        pairs, labels = _examples(questions, found, gold, texts)
        _train(start, folder, pairs, labels)
    return CrossEncoderScorer(str(folder), max_tokens=256)


def reranked(scorer: CrossEncoderScorer, questions: Sequence[str], found: Scores, texts: Sequence[str]) -> Scores:
    """`found` with each question's first passages in the cross-encoder's order, all of them above the rest."""
    first = np.argsort(-found, axis=1, kind="stable")[:, :DEPTH]
    pairs = [(question, texts[row]) for question, rows in zip(questions, first, strict=True) for row in rows]
    read = np.asarray(scorer.scores(pairs), dtype=np.float32).reshape(first.shape)
    scores = found.copy()
    np.put_along_axis(scores, first, read - read.min() + found.max() + 1, axis=1)
    return scores


def _examples(
    questions: Sequence[str], found: Scores, gold: Sequence[set[int]], texts: Sequence[str]
) -> tuple[list[Pair], list[float]]:
    """Each question with a gold passage, and with the first ones that are not."""
    pairs, labels = list[Pair](), list[float]()
    for question, scores, right in zip(questions, found, gold, strict=True):
        wrong = [int(row) for row in np.argsort(-scores, kind="stable")[:DEPTH] if row not in right][:NEGATIVES]
        pairs += [(question, texts[row]) for row in (min(right), *wrong)]
        labels += [1.0, *[0.0] * len(wrong)]
    return pairs, labels


def _train(start: Path, folder: Path, pairs: Sequence[Pair], labels: Sequence[float]) -> None:
    import torch
    from datasets import Dataset
    from sentence_transformers.cross_encoder import CrossEncoder, CrossEncoderTrainer, CrossEncoderTrainingArguments
    from sentence_transformers.cross_encoder.losses import BinaryCrossEntropyLoss

    torch.manual_seed(0)  # the head is new
    model = CrossEncoder(str(start), num_labels=1, max_length=256)
    columns = {"question": [one for one, _ in pairs], "passage": [one for _, one in pairs], "label": list(labels)}
    arguments = CrossEncoderTrainingArguments(
        output_dir=str(folder / "checkpoints"),
        num_train_epochs=EPOCHS,
        per_device_train_batch_size=BATCH,
        learning_rate=LEARNING_RATE,
        warmup_steps=0.1,
        logging_steps=20,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        seed=0,
    )
    loss = BinaryCrossEntropyLoss(model, pos_weight=torch.tensor(float(NEGATIVES)))
    CrossEncoderTrainer(model=model, args=arguments, train_dataset=Dataset.from_dict(columns), loss=loss).train()
    model.save_pretrained(str(folder))
