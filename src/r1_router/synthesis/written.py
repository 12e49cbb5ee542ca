"""What a teacher wrote when it was asked for a question: read, and held to what makes a question of use."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from r1_router.replies import BadReply
from r1_router.scoring import squad_tokens

_QUESTION = re.compile(r"<question>(.*?)</question>", re.DOTALL | re.IGNORECASE)
_ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Written:
    """A question with its answer, in the case they were written in."""

    question: str
    answer: str


def parse_written(reply: str, evidence: str, subject: str = "") -> Written | BadReply:
    """The question and its answer, if the answer stands in the evidence only and the question names the subject."""
    said = _after_thought(reply)
    question, answer = _inside(_QUESTION, said), _inside(_ANSWER, said)
    if not question or not answer:
        return BadReply("question malformed")
    if not holds(evidence, answer):
        return BadReply("answer not in its evidence")
    if holds(question, answer):
        return BadReply("question names its answer")
    if subject and not holds(question, subject):
        return BadReply("question does not name its subject")
    return Written(question, answer)


def parse_chained(reply: str, answers: Sequence[str]) -> str | BadReply:
    """The whole question, if it names none of the hops' answers."""
    question = _inside(_QUESTION, _after_thought(reply))
    if not question:
        return BadReply("chained question malformed")
    if any(holds(question, answer) for answer in answers):
        return BadReply("chained question names an answer")
    return question


def holds(text: str, name: str) -> bool:
    """Whether the words of the name stand in the text, one after the other, whatever their case and punctuation."""
    words, wanted = squad_tokens(text), squad_tokens(name)
    return any(words[at : at + len(wanted)] == wanted for at in range(len(words) - len(wanted) + 1))


def _after_thought(reply: str) -> str:
    """What follows the last thought; a teacher that reasons may think before it writes."""
    return reply.rpartition("</think>")[2]


def _inside(tag: re.Pattern[str], text: str) -> str:
    """What the first such tag holds, on one line; "" where there is none."""
    found = tag.search(text)
    return " ".join(found[1].split()) if found else ""
