"""Step rows for supervised training: gold trajectories cut into single prompts, evidence as really retrieved.

A row is `{"id", "step_type", "messages", "completion"}`; `step_type` is `ret` (route), `ans` (answer a
sub-question), `final`, or `rag` (answer the whole question from one retrieval, for the baseline's adapter).
The prompts come from the same builders as at inference, so what is trained is what is asked.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from r1_router.prompts import PromptSet, answer_messages, final_messages, rag_messages, route_messages
from r1_router.replies import format_answer, format_plan
from r1_router.training.swaps import Swapper
from r1_router.types import IMAGE, MAX_STEPS, NONE, Passage, Query, Question, Source

Search = Callable[[Source, Sequence[Query]], list[list[Passage]]]
"""Searches one source for many queries at once; passages best first."""

SECOND_SHARE = 0.5
ANSWER_SHARE = 0.6
FINAL_SHARE = {"compare": 0.8, "yes_no": 0.8, "earlier": 0.8}
FINAL_SHARE_ELSE = 0.15  # where the final answer repeats the last sub-answer
"""Shares of questions that give a second routing row, an answering and a final row; all give one routing row, for
the variety of wordings."""
SWAP_SHARE = 0.5
"""Share of a router's rows whose names are swapped."""


@dataclass(frozen=True, slots=True)
class StepMaker:
    """Cuts questions of one world; `forbidden(passage_id)` passages are never shown (those of held-out countries).

    With `lower_case` the questions stand in lower case, as the model will read them.
    """

    prompts: PromptSet
    sources: Sequence[Source]
    search: Search
    shown: int
    forbidden: Callable[[str], bool]
    swapper: Swapper
    lower_case: bool = False

    def router_rows(self, rows: Sequence[Mapping[str, Any]], seed: int) -> list[dict[str, Any]]:
        """A routing row for one or two random steps of each question, answering and final rows for a share of them."""
        rng = random.Random(seed)
        made = [self._route_row(row, index) for row in rows for index in self._steps(row, rng)]
        asked = [(row, rng.randrange(row["n_hops"])) for row in rows if rng.random() < ANSWER_SHARE]
        made += self._answer_rows(asked)
        made += [self._final_row(row) for row in rows if rng.random() < FINAL_SHARE.get(row["kind"], FINAL_SHARE_ELSE)]
        made = [self.swapper.swapped(row, rng) if rng.random() < SWAP_SHARE else row for row in made]
        rng.shuffle(made)
        return made

    def rag_rows(self, rows: Sequence[Mapping[str, Any]], seed: int) -> list[dict[str, Any]]:
        """One row a question: merged evidence for the question itself, gold answer; no gold passage is forced in."""
        found = {
            source: self._evidence(source, [_query(row, source, row["question"]) for row in rows])
            for source in self.sources
        }
        made = []
        for index, row in enumerate(rows):
            passages = [passage for source in self.sources for passage in found[source][index]]
            thought = _rag_thought(row)
            messages = rag_messages(self.prompts, self._question(row), passages)
            made.append(_step(row, "rag", messages, format_answer(thought, str(row["answers"][0]))))
        random.Random(seed).shuffle(made)
        return made

    def _steps(self, row: Mapping[str, Any], rng: random.Random) -> list[int]:
        """The step of a routing row, or two different ones."""
        return rng.sample(range(min(len(row["hops"]), MAX_STEPS)), 2 if rng.random() < SECOND_SHARE else 1)

    def _question(self, row: Mapping[str, Any]) -> Question:
        question = text_question(row)
        return replace(question, text=question.text.lower()) if self.lower_case else question

    def _route_row(self, row: Mapping[str, Any], index: int) -> dict[str, Any]:
        hop = row["hops"][index]
        messages = route_messages(self.prompts, self._question(row), _history(row, index), self.sources)
        return _step(row, "ret", messages, format_plan(hop["thought"], hop["query"], hop["source"]))

    def _answer_rows(self, asked: Sequence[tuple[Mapping[str, Any], int]]) -> Iterator[dict[str, Any]]:
        by_name = {source.name: source for source in self.sources}
        for source in self.sources:
            mine = [
                (row, row["hops"][index]) for row, index in asked if by_name[row["hops"][index]["source"]] is source
            ]
            found = self._evidence(source, [_query(row, source, hop["query"]) for row, hop in mine])
            for (row, hop), passages in zip(mine, found, strict=True):
                place = next((n for n, passage in enumerate(passages) if passage.id in hop["gold_ids"]), None)
                if place is None:
                    continue  # the gold passage was not found: there is nothing to read the answer from
                thought = hop["how"].format(p=f"{source.tag}-{place}")
                messages = answer_messages(self.prompts, Query(hop["query"]), passages)
                yield _step(row, "ans", messages, format_answer(thought, hop["answer"]))

    def _final_row(self, row: Mapping[str, Any]) -> dict[str, Any]:
        messages = final_messages(self.prompts, self._question(row), _history(row, row["n_hops"]))
        return _step(row, "final", messages, format_answer(row["closing"], str(row["answers"][0]).lower()))

    def _evidence(self, source: Source, queries: Sequence[Query]) -> list[list[Passage]]:
        """The first `shown` allowed passages for each query."""
        found = self.search(source, queries) if queries else []
        return [[p for p in passages if not self.forbidden(p.id)][: self.shown] for passages in found]


def text_question(row: Mapping[str, Any]) -> Question:
    """The question as a text-only model reads it: without its picture."""
    return Question(row["id"], row["question"])


def _query(row: Mapping[str, Any], source: Source, text: str) -> Query:
    return Query(text.lower().strip(), row["image"] if source.tag == IMAGE.tag else None)


def _history(row: Mapping[str, Any], count: int) -> list[tuple[str, str]]:
    """The first `count` gold sub-questions and answers, lower-cased as parsed replies are."""
    return [(hop["query"], hop["answer"].lower()) for hop in row["hops"][:count] if hop["source"] != NONE]


def _rag_thought(row: Mapping[str, Any]) -> str:
    """The whole gold reasoning in one line: every sub-answer, then the closing."""
    facts = [
        f"{hop['query'].removesuffix('?')}: {hop['answer'].lower()}." for hop in row["hops"] if hop["source"] != NONE
    ]
    return " ".join([*facts, row["closing"]])


def _step(row: Mapping[str, Any], kind: str, messages: list[dict[str, Any]], completion: str) -> dict[str, Any]:
    return {"id": row["id"], "step_type": kind, "messages": messages, "completion": completion}
