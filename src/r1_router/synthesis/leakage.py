"""Whether step rows ask what a model will be judged by: the same questions, about the same pictures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path, PurePath

from r1_router import jsonl
from r1_router.benchmarks import PUBLISHED
from r1_router.errors import DataError
from r1_router.scoring import squad_tokens
from r1_router.synthesis.places import Row, origin_question

Asked = frozenset[tuple[str, str]]
"""What a question file asks: normalised questions, each with the id of its image, "" for none."""


def leaks(rows: Sequence[Row], asked: Asked) -> dict[str, int]:
    """How many rows ask one of these questions, how many show one of their images, how many do both at once.

    A question that stands without an image on both sides counts as both.
    """
    questions, images = {question for question, _ in asked}, {image for _, image in asked if image}
    own = [(normalised(origin_question(row)), list(map(image_id, row["images"])) or [""]) for row in rows]
    return {
        "questions": sum(question in questions for question, _ in own),
        "images": sum(not images.isdisjoint(ids) for _, ids in own),
        "both": sum(any((question, one) in asked for one in ids) for question, ids in own),
    }


def asked_in(questions: Iterable[tuple[str, str | None]]) -> Asked:
    """The questions, each given with its image's path or None, as `leaks` compares them."""
    return frozenset((normalised(question), image_id(image) if image else "") for question, image in questions)


def read_asked(path: Path) -> Asked:
    """The questions of a JSONL file, a published one or one with `question` and perhaps `image` in each row."""
    published = next((one for one in PUBLISHED.values() if one.file == path.name), None)
    found = []
    for number, row in enumerate(jsonl.read(path), start=1):
        image = published.image_path(row) if published else row.get("image")
        if not isinstance(row.get("question"), str) or not isinstance(image, str | None):
            raise DataError(f"{path}, row {number}: expected texts under question and image, found {', '.join(row)}.")
        found.append((row["question"], image))
    return asked_in(found)


def published_questions(root: Path) -> dict[str, Asked | None]:
    """The questions of the six published sets under `root`, by name; None for a file that is not there."""
    paths = {name: root / one.file for name, one in PUBLISHED.items()}
    return {name: read_asked(path) if path.is_file() else None for name, path in paths.items()}


def normalised(question: str) -> str:
    """The question in lower case, without punctuation and articles."""
    return " ".join(squad_tokens(question))


def image_id(path: str) -> str:
    """The file's name without folder and ending."""
    return PurePath(path).stem
