"""Step rows as tokens: read, tokenise, group by length, pad."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from r1_router import jsonl
from r1_router.errors import DataError
from r1_router.llm.content import text_only

if TYPE_CHECKING:
    from torch import Tensor

POOL_BATCHES = 50
"""Batches sorted by length together: larger pads less, smaller mixes better."""


@dataclass(frozen=True, slots=True)
class Example:
    """Token ids of prompt and completion; the loss is taken on `ids[prompt_length:]`. `pictures` are paths."""

    ids: tuple[int, ...]
    prompt_length: int
    pictures: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Batch:
    """`ids` (B, T), right-padded; `rows`, `columns`, `targets` (N,): hidden state [row, column] predicts target.

    `seen` is what the model is shown beside the ids: pixels, their grids and places, where there are pictures.
    """

    ids: Tensor
    rows: Tensor
    columns: Tensor
    targets: Tensor
    seen: Mapping[str, Tensor] = field(default_factory=dict)

    def to(self, device: str) -> Batch:
        """The same on a device."""
        ids, rows, columns, targets = (part.to(device) for part in (self.ids, self.rows, self.columns, self.targets))
        return Batch(ids, rows, columns, targets, {name: value.to(device) for name, value in self.seen.items()})


def load_examples(path: Path, processor: Any, max_length: int) -> tuple[list[Example], int]:
    """Read a JSONL file of step rows; returns the examples and how many rows were over `max_length` tokens.

    `processor` is a tokenizer, or a processor of text and images; image paths start from the file's folder. Raises
    DataError, naming the row, for a row without `messages` and `completion`, and when no row is left.
    """
    examples = [encode(_checked(row, path, n), processor, path.parent) for n, row in enumerate(jsonl.read(path), 1)]
    kept = [example for example in examples if len(example.ids) <= max_length]
    if not kept:
        raise DataError(f"{path}: none of {len(examples)} step rows fits in {max_length} tokens; raise max_length")
    return kept, len(examples) - len(kept)


def encode(row: jsonl.Record, processor: Any, folder: Path) -> Example:
    """The chat so far as the model will be asked it, then the completion and the end of the turn.

    Both are tokenised apart, since at inference the prompt is complete before the first new token. A tokenizer's model
    is asked without pictures, others with those of `folder`.
    """
    tokenizer = getattr(processor, "tokenizer", processor)
    messages = text_only(row["messages"]) if tokenizer is processor else row["messages"]
    prompt = processor.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    if pictures := tuple(str(folder / picture) for picture in _pictures(messages)):
        prompt_ids = processor(text=[prompt], images=opened(pictures))["input_ids"][0]
    else:
        prompt_ids = tokenizer(prompt, add_special_tokens=False)["input_ids"]
    completion_ids = tokenizer(row["completion"] + tokenizer.eos_token, add_special_tokens=False)["input_ids"]
    return Example((*prompt_ids, *completion_ids), len(prompt_ids), pictures)


def opened(paths: Sequence[str]) -> list[Any]:
    """The pictures of these paths."""
    from r1_router.pictures import open_picture

    return [open_picture(path) for path in paths]


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


def with_pictures(batch: Batch, examples: Sequence[Example], processor: Any) -> Batch:
    """The batch with what its examples show, which is read when it is needed: pixels are many times their file."""
    paths = [path for example in examples for path in example.pictures]
    if not paths:
        return batch
    images = processor.image_processor(images=opened(paths), return_tensors="pt")
    places = (batch.ids == processor.image_token_id).long()
    return replace(batch, seen={**images, "mm_token_type_ids": places})


def _pictures(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    parts = [part for message in messages if not isinstance(message["content"], str) for part in message["content"]]
    return [part["image"] for part in parts if part["type"] == "image"]


def _checked(row: jsonl.Record, path: Path, number: int) -> jsonl.Record:
    if row.get("messages") and isinstance(row.get("completion"), str):
        return row
    raise DataError(f"{path}, row {number}: a step row needs `messages` and a string `completion`; found {sorted(row)}")
