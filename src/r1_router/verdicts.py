"""What a judge is asked about an answer, how its reply is read, and the file beside the results that keeps verdicts."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from r1_router import jsonl
from r1_router.errors import DataError
from r1_router.predictions import Prediction
from r1_router.prompts.messages import chat
from r1_router.prompts.sets import load_prompt
from r1_router.replies import BadReply
from r1_router.scoring import range_of
from r1_router.types import Message

_WORDS: Mapping[str, bool | None] = {"right": True, "wrong": False, "unreadable": None}
_VERDICT = re.compile(r"<verdict>\s*(right|wrong)\s*</verdict>")


@dataclass(frozen=True, slots=True)
class Case:
    """One answer to be judged, each text on one line so that none can pass for a part of the form."""

    question: str
    golds: tuple[str, ...]
    prediction: str

    def messages(self) -> list[Message]:
        """What the judge reads: no picture, for the golds say what it shows."""
        golds = "".join(f"- {gold}\n" for gold in self.golds)
        text = f"Question: {self.question}\nAccepted answers:\n{golds}Reply: {self.prediction}"
        return chat(load_prompt("judge", "judge"), text, None)

    def key(self, model: str) -> str:
        """What the verdict hangs on, hashed: the whole request (wording, question, golds, prediction) and the model."""
        return _digest([model, self.messages()])


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the judge said of one answer; `right` is None where even the last `reply` could not be read."""

    right: bool | None
    reply: str = ""


def case_of(prediction: Prediction) -> Case:
    """The answer as the judge reads it; a numeric gold that is a range is told as one."""
    golds = prediction.gold if isinstance(prediction.gold, list) else [prediction.gold]
    return Case(one_line(prediction.question), tuple(map(_gold_text, golds)), one_line(prediction.text))


def prompt_digest() -> str:
    """16 hex digits of the judge's wording, form of the request included."""
    return _digest(Case("", ("",), "").messages())[:16]


def parse_verdict(text: str) -> bool | BadReply:
    """Whether the reply says right, in the one verdict after its thought, which may be missing but not unfinished."""
    _, _, said = text.lower().rpartition("</think>")
    if "<think>" in said:
        return BadReply("a thought without an end")
    found = set(_VERDICT.findall(said))
    if len(found) != 1:
        return BadReply(f"one <verdict> of right or wrong is wanted, found {len(found)}")
    return found == {"right"}


def read_verdicts(path: Path) -> dict[str, Verdict]:
    """The verdicts kept in `path`, by key, none where there is no file; a tail that a killed run tore is cut off.

    Raises DataError for a line that is no verdict.
    """
    kept: dict[str, Verdict] = {}
    if not path.exists():
        return kept
    jsonl.repair_tail(path)
    for record in jsonl.read(path):
        if not isinstance(record.get("key"), str) or record.get("verdict") not in tuple(_WORDS):
            raise DataError(f"{path}: no verdict of the judge: {record}; take that line out, it will be asked again.")
        kept[record["key"]] = Verdict(_WORDS[record["verdict"]], record.get("reply", ""))
    return kept


def keep_verdict(path: Path, case: Case, verdict: Verdict, model: str) -> None:
    """Add one verdict to `path`: its key decides, the rest is for a reader."""
    word = next(word for word, right in _WORDS.items() if right is verdict.right)
    asked = {"question": case.question, "golds": case.golds, "prediction": case.prediction}
    said = {"reply": one_line(verdict.reply), "model": model, "prompt": prompt_digest()}
    record = {"key": case.key(model), "verdict": word, **asked, **said}
    try:
        jsonl.append(path, record)
    except OSError as error:
        raise DataError(f"{path}: cannot be written ({error}); verdicts are kept beside the results.") from error


def one_line(text: Any) -> str:
    """The text with its white space folded; lone surrogates, which no file and no server takes, become `?`."""
    return " ".join(str(text).encode("utf-8", "replace").decode("utf-8").split())


def _gold_text(gold: Any) -> str:
    return "a number from {} to {}".format(*range_of(gold)) if isinstance(gold, Mapping) else one_line(gold)


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, ensure_ascii=False).encode()).hexdigest()
