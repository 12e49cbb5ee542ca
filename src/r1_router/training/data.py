"""Step rows as tokens: read, tokenise, group by length, pad."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from r1_router import jsonl
from r1_router.errors import DataError

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedTokenizerBase

POOL_BATCHES = 50
"""Batches sorted by length together: larger pads less, smaller mixes better."""


@dataclass(frozen=True, slots=True)
class Example:
    """Token ids of prompt and completion; the loss is taken on `ids[prompt_length:]`."""

    ids: tuple[int, ...]
    prompt_length: int


@dataclass(frozen=True, slots=True)
class Batch:
    """`ids` (B, T), right-padded; `rows`, `columns`, `targets` (N,): hidden state [row, column] predicts target."""

    ids: Tensor
    rows: Tensor
    columns: Tensor
    targets: Tensor


def load_examples(path: Path, tokenizer: PreTrainedTokenizerBase, max_length: int) -> tuple[list[Example], int]:
    """Read a JSONL file of step rows; returns the examples and how many rows were over `max_length` tokens.

    Raises DataError, naming the row, for a row without `messages` and `completion`, and when no row is left.
    """
    examples = [encode(_checked(row, path, n), tokenizer) for n, row in enumerate(jsonl.read(path), 1)]
    kept = [example for example in examples if len(example.ids) <= max_length]
    if not kept:
        raise DataError(f"{path}: none of {len(examples)} step rows fits in {max_length} tokens; raise max_length")
    return kept, len(examples) - len(kept)


def encode(row: jsonl.Record, tokenizer: PreTrainedTokenizerBase) -> Example:
    """The chat so far as the model will be asked it, then the completion and the end of the turn.

    Both are tokenised apart, since at inference the prompt is complete before the first new token.
    """
    prompt = tokenizer.apply_chat_template(row["messages"], tokenize=False, add_generation_prompt=True)
    prompt_ids = tokenizer(prompt, add_special_tokens=False)["input_ids"]
    completion_ids = tokenizer(row["completion"] + tokenizer.eos_token, add_special_tokens=False)["input_ids"]
    return Example((*prompt_ids, *completion_ids), len(prompt_ids))


def epoch_batches(lengths: Sequence[int], batch_size: int, seed: int, epoch: int) -> list[list[int]]:
    """Indices of one epoch in batches of like lengths, in random order: the same for the same arguments."""
    generator = random.Random(f"{seed}/{epoch}")
    order = generator.sample(range(len(lengths)), len(lengths))
    pool = POOL_BATCHES * batch_size
    pooled = (sorted(order[at : at + pool], key=lengths.__getitem__) for at in range(0, len(order), pool))
    ordered = [index for indices in pooled for index in indices]
    batches = [ordered[at : at + batch_size] for at in range(0, len(ordered), batch_size)]
    generator.shuffle(batches)
    return batches


def pad(examples: Sequence[Example], pad_id: int) -> Batch:
    """Pad on the right. No attention mask is needed: under causal attention no token sees the padding after it."""
    import torch

    width = max(len(example.ids) for example in examples)
    ids = torch.tensor([[*example.ids, *[pad_id] * (width - len(example.ids))] for example in examples])
    spans = [
        (row, column)
        for row, example in enumerate(examples)
        for column in range(example.prompt_length - 1, len(example.ids) - 1)
    ]
    rows, columns = torch.tensor(spans).unbind(1)
    return Batch(ids, rows, columns, ids[rows, columns + 1])


def _checked(row: jsonl.Record, path: Path, number: int) -> jsonl.Record:
    if row.get("messages") and isinstance(row.get("completion"), str):
        return row
    raise DataError(f"{path}, row {number}: a step row needs `messages` and a string `completion`; found {sorted(row)}")
