"""Questions that the teacher writes from what the knowledge bases hold, chained over entities they share.

    hop 1     a question about what was drawn: a passage, a table row, a picture
    hop 2, 3  the answer before is looked for in the other bases, and the teacher asks about it from what tells of it
    the whole the hops put into one question, which names none of the answers

The question of each hop and the whole one are answered back from their evidence alone; where the answer is another,
the draw is dropped. A chain of which no next hop can be made ends where it is.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from r1_router.methods import Settings
from r1_router.methods.blocks import parsed_reply
from r1_router.methods.work import Work
from r1_router.prompts import answer_messages
from r1_router.prompts.messages import chat
from r1_router.prompts.sets import load_prompt
from r1_router.replies import BadReply
from r1_router.scoring import score
from r1_router.synthesis.draws import Draw
from r1_router.synthesis.teacher import TRIES, parse_teacher_answer
from r1_router.synthesis.written import holds, parse_chained, parse_written
from r1_router.types import IMAGE, LLM, Message, Method, Passage, Query, Question, Retriever, Source, Trajectory

PROMPTS = "generation"
MADE, DROPPED = "made", "dropped"
"""Where a draw's record has the question's row, or why there is none."""
A_NAME, ANY_FACT = "the name of a person, place or thing", "any fact"
Parsed = TypeVar("Parsed")


@dataclass(frozen=True, slots=True)
class Hop:
    """One sub-question with its answer and the passage that tells it."""

    question: str
    answer: str
    passage: Passage

    def to_json(self) -> dict[str, Any]:
        """A gold hop as question files have it; sub-questions and their answers are in lower case everywhere."""
        source, ids = self.passage.source.name, [self.passage.id]
        return {"query": self.question.lower(), "source": source, "gold_ids": ids, "answer": self.answer}


def generator(settings: Settings, draws: Mapping[str, Draw]) -> Method:
    """Makes a question of each draw, by its id: the trajectory's row has it under MADE, or the reason under DROPPED."""

    async def run(question: Question, llm: LLM, retrievers: Mapping[Source, Retriever]) -> Trajectory:
        work, draw = Work(question, llm, retrievers, settings), draws[question.id]
        row = await _row(work, draw)
        extra = {DROPPED: row.reason} if isinstance(row, BadReply) else {MADE: row}
        return replace(work.pause(()), question=replace(question, extra=extra))

    return run


async def _row(work: Work, draw: Draw) -> dict[str, Any] | BadReply:
    """The question as its file has it, or why there is none."""
    hops = await _hops(work, draw)
    if isinstance(hops, BadReply):
        return hops
    text = await _whole(work, hops)
    if isinstance(text, BadReply):
        return text
    evidence = [hop.passage for hop in hops]
    if len(hops) > 1 and not await _is_answered(work, text, draw.image, evidence, hops[-1].answer):
        return BadReply("not answered back")
    row = {"id": draw.id, "question": text, "answers": [hops[-1].answer], "image": draw.image, "n_hops": len(hops)}
    return {**row, "hops": [hop.to_json() for hop in hops]}


async def _hops(work: Work, draw: Draw) -> list[Hop] | BadReply:
    """As many of the draw's hops as can be made, at least one."""
    first = await _hop(work, _request(draw.kind, draw.text, draw.hops > 1), draw.passage, draw.image)
    if isinstance(first, BadReply):
        return first
    hops = [first]
    while len(hops) < draw.hops and (passage := await _linked(work, hops)):
        subject = hops[-1].answer
        text = f"Subject: {subject}\nPassage: {passage.text}"
        following = await _hop(work, _request("linked", text, draw.hops > len(hops) + 1), passage, subject=subject)
        if isinstance(following, BadReply):
            break
        hops.append(following)
    return hops


async def _hop(
    work: Work, messages: Sequence[Message], passage: Passage, image: str | None = None, subject: str = ""
) -> Hop | BadReply:
    written = await _asked(work, messages, lambda reply: parse_written(reply, passage.text, subject))
    if isinstance(written, BadReply):
        return written
    if not await _is_answered(work, written.question, image, [passage], written.answer):
        return BadReply("not answered back")
    return Hop(written.question, written.answer, passage)


async def _whole(work: Work, hops: Sequence[Hop]) -> str | BadReply:
    """The one question that the hops are put into."""
    if len(hops) == 1:
        return hops[0].question
    lines = [f"Question{n}: {hop.question}\nAnswer{n}: {hop.answer}" for n, hop in enumerate(hops, start=1)]
    messages = chat(load_prompt(PROMPTS, "chained"), "\n".join(lines), None)
    return await _asked(work, messages, lambda reply: parse_chained(reply, [hop.answer for hop in hops]))


async def _linked(work: Work, hops: Sequence[Hop]) -> Passage | None:
    """A passage of another base, or of the same where no other has one, that tells of the last answer.

    Numbers name nothing, and bases of pictures are asked with a picture only, so neither links.
    """
    last, used = hops[-1], {hop.passage.id for hop in hops}
    if not any(map(str.isalpha, last.answer)):
        return None
    sources = [source for source in work.retrievers if source.tag != IMAGE.tag]
    random.Random(f"{work.question.id} {len(hops)}").shuffle(sources)
    for source in sorted(sources, key=lambda source: source == last.passage.source):
        found = await work.search(source, Query(last.answer.lower()))
        for passage in found:
            if passage.id not in used and holds(passage.text, last.answer):
                return passage
    return None


async def _is_answered(work: Work, question: str, image: str | None, evidence: Sequence[Passage], answer: str) -> bool:
    """Whether the engine, shown nothing but the evidence, comes to the answer."""
    messages = answer_messages(work.settings.prompts, Query(question, image), evidence)
    found = await parsed_reply(work, messages, parse_teacher_answer, TRIES)
    return found is not None and score(found.text, [answer]).recall == 1


async def _asked(
    work: Work, messages: Sequence[Message], parse: Callable[[str], Parsed | BadReply]
) -> Parsed | BadReply:
    """The first reply that `parse` accepts, or the fault of the last."""
    fault = BadReply("")
    for attempt in range(TRIES):
        parsed = parse(await work.chat(messages, attempt))
        if not isinstance(parsed, BadReply):
            return parsed
        fault = parsed
        work.note_malformed()
    return fault


def _request(task: str, text: str, goes_on: bool) -> list[Message]:
    """Ask for a question; one that another hop should follow has a name for its answer."""
    return chat(load_prompt(PROMPTS, task), f"{text}\nWanted: {A_NAME if goes_on else ANY_FACT}", None)
