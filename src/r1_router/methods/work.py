"""One question being worked on: what is at hand for it, and the count of what it uses."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from r1_router.errors import KnowledgeBaseDown, PromptTooLong
from r1_router.prompts import PromptSet, without_last_passage
from r1_router.types import (
    LLM,
    MAX_STEPS,
    Answer,
    Message,
    Passage,
    Query,
    Question,
    Retriever,
    Sampling,
    Source,
    Step,
    Trajectory,
    Usage,
)

RETRY_TEMPERATURE = 0.7
"""Least temperature of a second try: a greedy model would write the same malformed reply again."""

Event = Step | Answer
OnEvent = Callable[[Event], None]
"""Told of each step as it grows (planned, searched, answered where steps have answers), then of the final answer."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How a method works, whatever the question.

    `retrieved` passages of each source asked are kept in the trajectory, the first `shown` of them
    stand in the prompt. With `lower_case` the model reads the question in lower case, as it reads its own earlier
    sub-questions and answers: a name is then copied token for token. With `constrained` the engine holds plans and
    answers to their form. With `forget_on_stop` the final prompt after a plan of none holds no sub-questions, as the
    reference's code has it, against its intent; for comparisons only.
    """

    prompts: PromptSet
    sampling: Sampling = field(default_factory=Sampling)
    retrieved: int = 10
    shown: int = 5
    max_steps: int = MAX_STEPS
    lower_case: bool = False
    constrained: bool = False
    forget_on_stop: bool = False
    on_event: OnEvent | None = None


class Work:
    """One question being worked on: the model and the retrievers at hand, and the count of what is used.

    `used` is what earlier stages of the same question have used.
    """

    def __init__(
        self,
        question: Question,
        llm: LLM,
        retrievers: Mapping[Source, Retriever],
        settings: Settings,
        used: Usage | None = None,
    ) -> None:
        self.question = question
        self.read = replace(question, text=question.text.lower()) if settings.lower_case else question
        self.retrievers = retrievers
        self.settings = settings
        self.usage = used or Usage()
        self._llm = llm
        self._started = time.perf_counter() - self.usage.seconds

    async def chat(self, messages: Sequence[Message], attempt: int, pattern: str = "") -> str:
        """One reply; each call has a seed of its own, the same in every run whatever else is in flight.

        A prompt too long for the context is asked again with less evidence, the last passages left out first.
        """
        sampling = replace(self.settings.sampling, pattern=pattern if self.settings.constrained else "")
        seed = zlib.crc32(f"{sampling.seed} {self.question.id} {self.usage.calls}".encode())
        temperature = max(sampling.temperature, RETRY_TEMPERATURE) if attempt else sampling.temperature
        sampling = replace(sampling, seed=seed, temperature=temperature)
        self._count(calls=1)
        while True:
            try:
                reply = await self._llm.chat(messages, sampling=sampling)
            except PromptTooLong:
                shorter = without_last_passage(messages)
                if shorter is None:
                    raise
                messages = shorter
                self._count(dropped=1)
            else:
                self._count(prompt_tokens=reply.prompt_tokens, completion_tokens=reply.completion_tokens)
                return reply.text

    async def search(self, source: Source, query: Query) -> list[Passage]:
        """The passages of one source, best first; none, which is counted, where its knowledge base is down."""
        self._count(retrievals=1)
        try:
            return await self.retrievers[source].search(query, self.settings.retrieved)
        except KnowledgeBaseDown:
            self._count(unanswered=1)
            return []

    def note_malformed(self) -> None:
        """Count one reply that broke the grammar."""
        self._count(malformed=1)

    def tell(self, event: Event) -> None:
        """Show what has just come about to whoever watches."""
        if self.settings.on_event is not None:
            self.settings.on_event(event)

    def finish(self, steps: Sequence[Step], answer: Answer) -> Trajectory:
        """The trajectory, with what it cost."""
        self.tell(answer)
        return replace(self.pause(steps), answer=answer)

    def pause(self, steps: Sequence[Step]) -> Trajectory:
        """The trajectory so far, without an answer, with what it has cost."""
        usage = replace(self.usage, seconds=round(time.perf_counter() - self._started, 4))
        return Trajectory(self.question, tuple(steps), usage=usage)

    def _count(self, **more: int) -> None:
        self.usage = replace(self.usage, **{name: getattr(self.usage, name) + n for name, n in more.items()})
