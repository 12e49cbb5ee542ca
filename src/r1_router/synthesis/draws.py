"""Where generated questions begin: a passage, a table row or a picture, drawn from the knowledge bases by a seed."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from r1_router.types import MAX_STEPS, Passage, Question, Source


class Kind(StrEnum):
    """What a question begins with; also the name of the text that asks for it, in `prompts/generation`."""

    PASSAGE = "passage"
    ROW = "row"
    PICTURE = "picture"


class Rows(Protocol):
    """The passages of a knowledge base by number, as its file has them."""

    def __len__(self) -> int: ...

    def __getitem__(self, row: int) -> Mapping[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Shelf:
    """A knowledge base to draw from; image paths start from `pictures`."""

    source: Source
    rows: Rows
    pictures: Path


@dataclass(frozen=True, slots=True)
class Draw:
    """Where one question begins, as the teacher reads it, and how many hops it should have."""

    id: str
    kind: Kind
    text: str
    passage: Passage
    hops: int
    image: str | None = None

    def question(self) -> Question:
        """What the draw is run as: its text says what was drawn, so that another draw is not taken for it."""
        return Question(self.id, f"{self.passage.source.name}: {self.passage.id}", image=self.image)


def draw_all(shelves: Sequence[Shelf], seed: int, number: int) -> list[Draw]:
    """So many draws, each by a generator of its own: a longer list begins with the shorter one."""
    return [_draw(shelves, random.Random(f"{seed} {n}"), f"generated-{n:05}") for n in range(number)]


def _draw(shelves: Sequence[Shelf], rng: random.Random, id_: str) -> Draw:
    shelf = rng.choice(shelves)
    row = shelf.rows[rng.randrange(len(shelf.rows))]
    passage = Passage(row["id"], row["text"], 0.0, shelf.source)
    hops = rng.randint(1, MAX_STEPS)
    if row.get("image"):
        picture = str(shelf.pictures / row["image"])
        return Draw(id_, Kind.PICTURE, f"Caption: {row['text']}", passage, hops, picture)
    if row.get("rows") and row.get("header"):
        cells = _cells(row["header"], rng.choice(row["rows"]))
        return Draw(id_, Kind.ROW, f"Table: {row['title']}\nRow: {cells}", passage, hops)
    return Draw(id_, Kind.PASSAGE, f"Passage: {row['text']}", passage, hops)


def _cells(header: Iterable[Any], row: Iterable[Any]) -> str:
    return "; ".join(f"{name}: {cell}" for name, cell in zip(header, row, strict=False))
