"""Nested step rows read: the rows themselves, and each step with what its place in the row says about it.

    {"images": [path], "steps": [{"step_type": "ret" | "ans", "problem", "system", "answer"}, ..]}

A `ret` step's answer is the next sub-question and its retriever, that of the `ans` step after it the sub-answer, and
the last step's the golds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from r1_router.errors import DataError
from r1_router.prompts.messages import History, origin
from r1_router.prompts.released import IMAGE_MARK
from r1_router.types import NONE, Question

Row = Mapping[str, Any]
ROW_KEYS = {"images", "steps"}
STEP_KEYS = {"step_type", "problem", "system", "answer"}
_QUESTION = re.compile(r"Origin question: (.*?)\n(?:Sub-question1: |\Z)", re.DOTALL)


class Kind(StrEnum):
    """What a place is; a route to no retriever is one of its own."""

    ROW = "row"
    ROUTE = "route"
    STOP = "stop"
    ANSWER = "sub-answer"
    FINAL = "final answer"


@dataclass(frozen=True, slots=True)
class Route:
    """The target of a routing step; None where it cannot be read."""

    query: str | None = None
    name: str | None = None

    @property
    def stops(self) -> bool:
        return self.name is not None and self.name.strip().lower() == NONE


@dataclass(frozen=True, slots=True)
class Place:
    """A row, or one of its steps with what was asked before it.

    `number` counts rows from 1, `index` steps from 0. `route` is the step's own, or for an answer the one before it.
    """

    kind: Kind
    number: int
    row: Row
    index: int = -1
    question: str = ""
    history: History = ()
    route: Route = field(default_factory=Route)

    @property
    def step(self) -> Row:
        return self.row["steps"][self.index]

    @property
    def mark(self) -> str:
        """What must stand at the end of the prompt."""
        return IMAGE_MARK if self.row["images"] else ""

    @property
    def text(self) -> str:
        """The prompt without the mark."""
        return self.step["problem"].removesuffix(IMAGE_MARK)

    @property
    def above(self) -> str:
        """The prompt down to where the sub-question stands, if it does."""
        return self.text.removesuffix(self.route.query or "")

    @property
    def request(self) -> str:
        """What stands between the evidence, which ends at the last empty line, and the sub-question."""
        return self.above.rpartition("\n\n")[2]

    @property
    def head(self) -> str:
        """The origin question and what was asked before."""
        return origin(Question("", self.question), self.history)

    @property
    def final_request(self) -> str | None:
        """What follows the head, `{question}` for the origin question; None where the prompt has another head."""
        if not self.text.startswith(self.head):
            return None
        request = self.text.removeprefix(self.head)
        return request.replace(self.question, "{question}") if self.question else request


def places_of(row: Row, number: int) -> Iterator[Place]:
    """The row itself, then its steps in order, a route to none once as a route and once as a stop.

    Steps of no known type have no place. Raises DataError for what is no step row.
    """
    require_step_row(row, number)
    question, route = origin_question(row), Route()
    history: tuple[tuple[str, str], ...] = ()
    yield Place(Kind.ROW, number, row)
    for index, step in enumerate(row["steps"]):
        if step["step_type"] == "ret":
            route = route_of(step)
        kinds = _kinds(step, route, index == len(row["steps"]) - 1)
        yield from (Place(kind, number, row, index, question, history, route) for kind in kinds)
        if Kind.ANSWER in kinds:
            history = (*history, (route.query or "", str(step["answer"])))


def require_step_row(row: Row, number: int) -> None:
    """Raise DataError unless the row has at least one step and exactly the keys of the form."""
    images, steps = row.get("images"), row.get("steps")
    if set(row) != ROW_KEYS or not isinstance(images, list) or not isinstance(steps, list) or not steps:
        raise DataError(
            f"row {number}: a step row has the lists `images` and `steps` and no other key; found {', '.join(row)}. "
            "`r1-router steps nest` makes such rows of flat ones."
        )
    for index, step in enumerate(steps, start=1):
        if not isinstance(step, Mapping) or set(step) != STEP_KEYS:
            found = ", ".join(step) if isinstance(step, Mapping) else type(step).__name__
            raise DataError(f"row {number}, step {index}: expected {', '.join(sorted(STEP_KEYS))}; found {found}.")
        if not all(isinstance(step[key], str) for key in STEP_KEYS - {"answer"}):
            raise DataError(f"row {number}, step {index}: step_type, problem and system must be texts.")
    if not all(isinstance(image, str) for image in images):
        raise DataError(f"row {number}: `images` must hold paths.")


def origin_question(row: Row) -> str:
    """The question that the row's first routing prompt opens with; "" where none does."""
    prompts = (step["problem"].removesuffix(IMAGE_MARK) for step in row["steps"] if step["step_type"] == "ret")
    return next((found[1] for prompt in prompts if (found := _QUESTION.match(prompt))), "")


def route_of(step: Row) -> Route:
    """What a routing step's target says, as far as it can be read."""
    answer = step["answer"]
    if not isinstance(answer, Mapping):
        return Route()
    query, names = answer.get("query"), answer.get("retriever")
    name = names[0] if isinstance(names, list) and len(names) == 1 else names
    return Route(query if isinstance(query, str) else None, name if isinstance(name, str) else None)


def routes_of(row: Row) -> list[Route]:
    """The row's routes in order."""
    return [route_of(step) for step in row["steps"] if step["step_type"] == "ret"]


def _kinds(step: Row, route: Route, is_last: bool) -> list[Kind]:
    if step["step_type"] == "ret":
        return [Kind.ROUTE, Kind.STOP] if route.stops else [Kind.ROUTE]
    if step["step_type"] == "ans":
        return [Kind.FINAL if is_last else Kind.ANSWER]
    return []
