"""The wording a released checkpoint was trained with, taken from the published step data that a user has fetched.

The published prompts carry no licence, so they are not in this package; the step data holds them, row by row: a row is
`{"steps": [{"step_type": "ret" | "ans", "system", "problem", "answer"}, ..]}`, an `ans` step after a `ret` step answers
its sub-question, and the last one of a row gives the final answer.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from r1_router.errors import DataError
from r1_router.files import write_atomically
from r1_router.prompts.sets import prompt_texts

FINGERPRINTS = {
    "router": "3bcd8780809dcdb2eaca9e41d596218fbcd0d9a36bdbc34425c9c4ed60907bcb",
    "answer": "b90877abd289848f710aecb07ec84b0dbef89ad529c8ccc1a8c8d32a000a064d",
    "final": "c6ca2e33c2351a4686df7ecb27b648520322ce899ef50934d3571c2da1cdad01",
}
"""SHA-256 of the system texts of the reference at inference; the step data has two versions of the router's."""
IMAGE_MARK = "<image>"
NEWLINE = "\n"
FIRST_LABEL = re.compile(r"\b[a-z]+-0: ")
Row = Mapping[str, Any]


def import_released(rows: Iterable[Row], folder: Path) -> dict[str, bool]:
    """Write a prompt set into `folder`; gives for each system text whether it is, byte for byte, the reference's.

    What the step data does not hold (the reminder, the texts of other methods) is the guided set's. Raises DataError
    for rows that are no step data.
    """
    texts = {**prompt_texts("guided"), **released_texts(list(rows))}
    for name, text in texts.items():
        write_atomically(folder / f"{name}.txt", text + "\n")
    return {name: _digest(texts[name]) == digest for name, digest in FINGERPRINTS.items()}


def released_texts(rows: Sequence[Row]) -> dict[str, str]:
    """The texts of the router, of answering and of the final answer, by file name."""
    routes = [step for row in rows for step in _steps(row) if step["step_type"] == "ret"]
    finals = [(_steps(row)[-1], _question(row)) for row in rows]
    answers = [
        (step, str(before["answer"]["query"]))
        for row in rows
        for before, step in zip(_steps(row)[:-1], _steps(row)[1:-1], strict=False)
        if before["step_type"] == "ret" and step["step_type"] == "ans"
    ]
    if not (routes and answers):
        raise DataError("the step data holds no routing or no answering step: is it the published step file?")
    heads = [_before(step["problem"], query) for step, query in answers]
    label = FIRST_LABEL.search(heads[0])
    if label is None:
        raise DataError("the answering steps of the step data show no passages: is it the published step file?")
    outro = _common_end(heads)
    request = _common_end([_before(step["problem"], question) for step, question in finals])
    return {
        "router": _system([step["system"] for step in routes], FINGERPRINTS["router"]),
        "answer": _system([step["system"] for step, _ in answers], FINGERPRINTS["answer"]),
        "final": _system([step["system"] for step, _ in finals], FINGERPRINTS["final"]),
        "answer_request": f"{heads[0][: label.start()]}{{evidence}}{outro.partition(NEWLINE)[2]}{{question}}",
        "final_request": f"{request.rpartition(NEWLINE)[2]}{{question}}",
    }


def _steps(row: Row) -> Sequence[Row]:
    steps = row.get("steps")
    if not isinstance(steps, list) or not steps or any("system" not in step or "problem" not in step for step in steps):
        raise DataError(f"a row of step data needs `steps` with `system` and `problem`; found {sorted(row)}.")
    return steps


def _question(row: Row) -> str:
    """The origin question, on the first line of the row's first prompt."""
    first = str(_steps(row)[0]["problem"]).removesuffix(IMAGE_MARK)
    return first.partition(": ")[2].partition("\n")[0]


def _before(problem: str, end: str) -> str:
    """The prompt up to the question at its end; some questions of the data open with a newline of their own."""
    return problem[: problem.rindex(end.strip())].removesuffix(NEWLINE)


def _common_end(texts: Sequence[str]) -> str:
    """The longest end that all texts share."""
    shared = 0
    for letters in zip(*(reversed(text) for text in texts), strict=False):
        if len(set(letters)) > 1:
            break
        shared += 1
    return texts[0][len(texts[0]) - shared :]


def _system(texts: Sequence[str], fingerprint: str) -> str:
    """The text with the fingerprint, else the commonest."""
    return next((text for text in texts if _digest(text) == fingerprint), Counter(texts).most_common(1)[0][0])


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
