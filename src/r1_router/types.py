"""The nouns: sources, questions, passages, plans, steps and trajectories.

JSON keys are the published ones, so that files made here and files made by the reference
implementation can be read by the same tools: `plan_0`.. with `thought`, `query`, `retriever`,
the passages under the source's tag (`ter`, `tir`, `tar`), `answer`, and `llm_answer` at the end.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from numpy.typing import NDArray

NONE = "none"
MAX_STEPS = 3
Message = dict[str, Any]
"""One chat message: `role`, and `content` as a string or a list of `{"type": "text" | "image", ...}`."""


@dataclass(frozen=True, slots=True)
class Source:
    """A knowledge base as the model sees it.

    `name` is what the model writes in `<ret>`, `tag` labels its passages (`ter-0`), `purpose`
    is the prompt's line on when to ask it.
    """

    name: str
    tag: str
    purpose: str


TEXT = Source("text retriever", "ter", "facts told in prose")
IMAGE = Source("text image retriever", "tir", "what the picture shows")
TABLE = Source("table retriever", "tar", "figures by country and year")
PUBLISHED_SOURCES = (TEXT, IMAGE, TABLE)


@dataclass(frozen=True, slots=True)
class Question:
    """One benchmark question; `answers` in any form the benchmark's record has, `extra` its other keys."""

    id: str
    text: str
    answers: Any = ()
    benchmark: str = ""
    image: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Query:
    """What is asked of one knowledge base: a sub-question, and perhaps the question's image."""

    text: str
    image: str | None = None


@dataclass(frozen=True, slots=True)
class Passage:
    """One retrieved passage. `score` is comparable within one search only; higher is nearer."""

    id: str
    text: str
    score: float
    source: Source


@dataclass(frozen=True, slots=True)
class Plan:
    """One routing decision: the next sub-question and the sources to ask (usually one)."""

    thought: str
    query: str
    sources: tuple[Source, ...] = ()

    @property
    def stops(self) -> bool:
        """Whether nothing more is to be asked: no query, or no source (reference: `none`)."""
        return not self.sources or self.query in ("", NONE)


@dataclass(frozen=True, slots=True)
class Answer:
    """One parsed answer reply."""

    thought: str
    text: str

    def to_json(self) -> dict[str, str]:
        return {"thought": self.thought, "answer": self.text}


@dataclass(frozen=True, slots=True)
class Step:
    """One plan with what was retrieved for it and the answer read from that."""

    plan: Plan
    passages: tuple[Passage, ...] = ()
    answer: Answer | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """What a trajectory cost. Token counts are the engine's own; `seconds` is wall time of the question.

    `dropped` counts the passages left out of prompts that were too long for the model's context, `unanswered` the
    retrievals that gave no evidence because the knowledge base was down.
    """

    calls: int = 0
    retrievals: int = 0
    malformed: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0
    dropped: int = 0
    unanswered: int = 0


@dataclass(frozen=True, slots=True)
class Trajectory:
    """Everything one method did for one question; `error` is set when it failed."""

    question: Question
    steps: tuple[Step, ...] = ()
    answer: Answer | None = None
    usage: Usage = field(default_factory=Usage)
    error: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The published record: the question's row untouched, `plan_0`.. and `llm_answer`."""
        from r1_router.records import trajectory_to_json

        return trajectory_to_json(self)

    @staticmethod
    def from_json(record: Mapping[str, Any], sources: Sequence[Source] = PUBLISHED_SOURCES) -> Trajectory:
        """Read a record written by `to_json` or by the reference; raises DataError naming the key."""
        from r1_router.records import trajectory_from_json

        return trajectory_from_json(record, sources)


@dataclass(frozen=True, slots=True)
class Sampling:
    """How replies are drawn. `temperature` 0 is greedy; the published setting is 1.0 with top_k 20.

    `pattern` is a regular expression that the whole reply must match, "" for none; methods set it for engines that can
    hold a reply to one.
    """

    temperature: float = 0.0
    top_k: int = 20
    max_tokens: int = 2048
    seed: int = 0
    pattern: str = ""


@dataclass(frozen=True, slots=True)
class Reply:
    """One completion with the engine's own token counts."""

    text: str
    prompt_tokens: int = 0
    completion_tokens: int = 0


class LLM(Protocol):
    """A language model: one chat in, one reply out; many may be awaited at once."""

    async def chat(self, messages: Sequence[Message], *, sampling: Sampling) -> Reply: ...


class Retriever(Protocol):
    """A searchable knowledge base: the `k` nearest passages, best first."""

    async def search(self, query: Query, k: int) -> list[Passage]: ...


class Encoder(Protocol):
    """Items to unit rows: `encode(items)` gives float32 of shape (len(items), dim).

    An item is a `Query`: text, image path, or both (score fusion sums the two before normalising).
    """

    dim: int

    def encode(self, items: Sequence[Query]) -> NDArray[Any]: ...


Method = Callable[[Question, LLM, Mapping[Source, Retriever]], Awaitable[Trajectory]]
