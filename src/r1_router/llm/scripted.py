"""A model that says what it is told to: for tests, and for measuring everything but the model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from r1_router.errors import EngineError
from r1_router.llm.content import text_of
from r1_router.types import Message, Reply, Sampling


@dataclass(frozen=True, slots=True)
class Call:
    """One request as the model got it."""

    messages: tuple[Message, ...]
    sampling: Sampling


class ScriptedLLM:
    """Replies from a list, in order, or from a function of the messages; `calls` records every request.

    Tokens are counted as words. Raises EngineError when the list is used up.
    """

    def __init__(self, replies: Iterable[str] | Callable[[Sequence[Message]], str]) -> None:
        self.calls: list[Call] = []
        self._reply = replies if callable(replies) else _read_out(replies)

    async def chat(self, messages: Sequence[Message], *, sampling: Sampling) -> Reply:
        self.calls.append(Call(tuple(messages), sampling))
        text = self._reply(messages)
        return Reply(text, sum(len(text_of(message).split()) for message in messages), len(text.split()))


def _read_out(replies: Iterable[str]) -> Callable[[Sequence[Message]], str]:
    script = iter(replies)

    def reply(messages: Sequence[Message]) -> str:
        for text in script:
            return text
        raise EngineError(f"the script has no reply left for: {text_of(messages[-1])[:200]!r}.")

    return reply
