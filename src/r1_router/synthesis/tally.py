"""What becomes of questions while they are being done: how many are kept, and how many each reason drops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from r1_router.types import LLM, Method, Question, Retriever, Source, Trajectory

KEPT, FAILED = "kept", "failed"
TOLD = 10
"""How often in a run the counts are told."""


class Tally:
    """Counts what a method comes to, and tells it at every tenth of `total` questions."""

    def __init__(self, title: str, total: int, tell: Callable[[str], None]) -> None:
        self._title, self._total, self._tell = title, total, tell
        self._counts: Counter[str] = Counter()

    def counting(self, method: Method, reason: Callable[[Trajectory], str | None]) -> Method:
        """The same method, counted; `reason` says why a trajectory is dropped, None where it is kept."""

        async def run(question: Question, llm: LLM, retrievers: Mapping[Source, Retriever]) -> Trajectory:
            try:
                trajectory = await method(question, llm, retrievers)
            except Exception:
                self._count(FAILED)
                raise
            self._count(reason(trajectory) or KEPT)
            return trajectory

        return run

    def _count(self, outcome: str) -> None:
        self._counts[outcome] += 1
        done = self._counts.total()
        if done % max(1, self._total // TOLD) == 0:
            counts = ", ".join(f"{count} {name}" for name, count in self._counts.most_common())
            self._tell(f"{self._title}: {done} of {self._total} done now: {counts}")
