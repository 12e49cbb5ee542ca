"""Step rows as prompts for sampling: one chat a step, with what its replies are held to.

Rows are read in the published nested form or flat, as `r1-router synthesize` and `r1-router steps flatten` write
them. Too long a prompt loses passages of its evidence from the end, never the question; one that is still too long
is dropped and counted, before training starts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from r1_router import jsonl
from r1_router.errors import ConfigError, DataError
from r1_router.prompts.messages import without_last_passage
from r1_router.prompts.released import IMAGE_MARK
from r1_router.reward_rules import ROUTE_STEP
from r1_router.synthesis.flat import flat_rows, read_flat
from r1_router.types import Message

FINAL_STEP = "final"
"""Published rows call every answering step `ans`; the last of a row is told apart here, to be trained on by itself."""


@dataclass(frozen=True, slots=True)
class StepPrompt:
    """Step `step` of trajectory `row`: the chat, the pictures it shows, and its answer as JSON text."""

    id: str
    row: int
    step: int
    step_type: str
    messages: tuple[Message, ...]
    images: tuple[str, ...]
    target: str


@dataclass(frozen=True, slots=True)
class Fitted:
    """The prompts that fit, and how many lost passages or were dropped on the way."""

    prompts: tuple[StepPrompt, ...]
    shortened: int
    dropped: int


def read_prompts(path: Path, *, step_types: Sequence[str], sees_images: bool) -> list[StepPrompt]:
    """The steps of these types, or of all with none named, in the file's order; a model without eyes sees no image.

    Image paths start from the file's folder.

    Raises DataError for what is no step row, and where no step is left.
    """
    rows = list(_flat(path))
    last = {row["row"]: row["step"] for row in sorted(rows, key=lambda row: int(row["step"]))}
    prompts = [_prompt(row, last[row["row"]], path.parent if sees_images else None) for row in rows]
    kept = [prompt for prompt in prompts if not step_types or prompt.step_type in step_types]
    if not kept:
        raise DataError(f"{path}: none of {len(prompts)} steps is of the types {', '.join(step_types)}.")
    return kept


Length = Callable[[Sequence[Message]], int]
"""A chat's tokens, its pictures with them."""


def fit(prompts: Sequence[StepPrompt], length_of: Length, most: int, *, shorten: bool) -> Fitted:
    """The prompts of at most `most` tokens, after leaving out passages where `shorten` says so.

    Raises ConfigError where none is left.
    """
    kept: list[StepPrompt] = []
    shortened = 0
    for prompt in prompts:
        chat = fitting(prompt.messages, length_of, most, shorten=shorten)
        if chat is not None:
            kept.append(replace(prompt, messages=tuple(chat)))
            shortened += chat is not prompt.messages
    if not kept:
        raise ConfigError(f"none of {len(prompts)} step prompts fits in {most} tokens; raise max_prompt.")
    return Fitted(tuple(kept), shortened, len(prompts) - len(kept))


def fitting(messages: Sequence[Message], length_of: Length, most: int, *, shorten: bool) -> Sequence[Message] | None:
    """The chat itself if it has at most `most` tokens, else with fewer passages; None where that is not enough."""
    chat: Sequence[Message] | None = messages
    while chat is not None and length_of(chat) > most:
        chat = without_last_passage(chat) if shorten else None
    return chat


def _flat(path: Path) -> Iterator[dict[str, Any]]:
    if path.suffix == ".parquet":
        return read_flat(path)
    rows = list(jsonl.read(path))
    return flat_rows(rows) if rows and "steps" in rows[0] else read_flat(path)


def _prompt(row: dict[str, Any], last: int, pictures: Path | None) -> StepPrompt:
    kind = row["step_type"]
    if kind != ROUTE_STEP and row["step"] == last:
        kind = FINAL_STEP
    images = tuple(str(pictures / image) for image in row["images"]) if pictures else ()
    messages = tuple(_message(message, images) for message in row["prompt"])
    return StepPrompt(row["id"], row["row"], int(row["step"]), kind, messages, images, row["target"])


def _message(message: Message, images: Sequence[str]) -> Message:
    """The message as at inference: the text without its mark, and each image after it."""
    text = message["content"].replace(IMAGE_MARK, "") if message["role"] == "user" else message["content"]
    if not images or message["role"] != "user":
        return {"role": message["role"], "content": text}
    parts = [{"type": "text", "text": text}, *({"type": "image", "image": image} for image in images)]
    return {"role": message["role"], "content": parts}
