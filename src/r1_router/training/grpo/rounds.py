"""Coroutines side by side, whose chats are answered in rounds: when all wait, and so the same rounds in every run.

Which chats are decoded together depends on no clock, so that a resumed run samples what an undisturbed one does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from r1_router.types import Message, Reply, Sampling

Asked = tuple[Sequence[Message], Sampling]
Answers = Callable[[Sequence[Asked]], Sequence[Reply | Exception]]
"""Answers chats together, each with a reply or with what is to be raised where it is awaited."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    asked: Asked
    reply: asyncio.Future[Reply]


class Rounds:
    """A language model for `walkers` coroutines, each of which awaits one chat at a time and says when it leaves."""

    def __init__(self, answers: Answers, walkers: int) -> None:
        self._answers = answers
        self._walkers = walkers
        self._waiting: list[_Waiting] = []

    async def chat(self, messages: Sequence[Message], *, sampling: Sampling) -> Reply:
        """The reply, once every walker waits for one."""
        waiting = _Waiting((messages, sampling), asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        self._answer_if_all_wait()
        return await waiting.reply

    def leave(self) -> None:
        """One walker fewer to wait for."""
        self._walkers -= 1
        self._answer_if_all_wait()

    def _answer_if_all_wait(self) -> None:
        self._waiting = [one for one in self._waiting if not one.reply.done()]  # cancelled ones want none
        if not self._waiting or len(self._waiting) < self._walkers:
            return
        # Searches end in any order; the seeds, each walk's own, do not.
        asked, self._waiting = sorted(self._waiting, key=lambda one: one.asked[1].seed), []
        for waiting, reply in zip(asked, self._answers([one.asked for one in asked]), strict=True):
            if isinstance(reply, Exception):
                waiting.reply.set_exception(reply)
            else:
                waiting.reply.set_result(reply)
