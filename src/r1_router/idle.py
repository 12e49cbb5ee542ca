"""What stands where nothing is loaded: a run that has nothing left to ask, the other half of a stage."""

from __future__ import annotations

from collections.abc import Sequence

from r1_router.errors import DataError
from r1_router.types import Message, Passage, Query, Reply, Sampling


class Idle:
    """A language model and a knowledge base that may not be asked."""

    async def chat(self, messages: Sequence[Message], *, sampling: Sampling) -> Reply:
        raise DataError("no model is loaded here.")

    async def search(self, query: Query, k: int) -> list[Passage]:
        raise DataError("no knowledge base is loaded here.")
