"""Result files: where they are, what an earlier run left in them, and the note of what they were made by."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from r1_router import jsonl
from r1_router.errors import ConfigError
from r1_router.types import Question, Source, Trajectory


def result_path(results_dir: Path, model: str, benchmark: str, method: str) -> Path:
    """Where the records of one method on one benchmark go, as the reference names it."""
    for part in (model, benchmark, method):
        if not part or part in (".", "..") or "/" in part or "\\" in part:
            raise ConfigError(f"results: {part!r} cannot be part of a file name; mend the name in the config.")
    return results_dir / model / f"{benchmark}_{method}.jsonl"


def resume(path: Path, questions: Sequence[Question], sources: Sequence[Source]) -> dict[str, Trajectory]:
    """The answered questions in `path`, by id; failed ones leave the file, to be tried again.

    A record whose question has another text by now is not an answer to it and leaves the file too.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    jsonl.repair_tail(path)
    records = list(jsonl.read(path)) if path.exists() else []
    asked = {question.id: question for question in questions}
    kept, done = [], {}
    for record in records:
        trajectory = Trajectory.from_json(record, sources)
        question = asked.get(trajectory.question.id)
        stale = question is not None and question.text != trajectory.question.text
        if trajectory.error is None and not stale and trajectory.question.id not in done:
            kept.append(record)
            done[trajectory.question.id] = trajectory
    if len(kept) < len(records):
        jsonl.rewrite(path, kept)
    return {id_: replace(trajectory, question=asked[id_]) for id_, trajectory in done.items() if id_ in asked}


@dataclass(frozen=True, slots=True)
class RunNote:
    """What stands beside a results file: the settings its answers were made by, and the time they took so far."""

    settings: Mapping[str, Any]
    answered: int = 0
    seconds: float = 0.0

    @property
    def seconds_per_question(self) -> float | None:
        """Wall time over questions, of all runs that wrote into the file."""
        return round(self.seconds / self.answered, 4) if self.answered else None


def open_note(path: Path, settings: Mapping[str, Any], *, replace_others: bool = False) -> RunNote:
    """The note of the results in `path`, or a new one where there are none.

    Answers of an older adapter or knowledge base must not be resumed as the new one's: when `settings` differ from
    the noted ones, raises ConfigError, or deletes the old results if `replace_others`.
    """
    settings = json.loads(json.dumps(settings))  # as they will be read back
    note_path = _note_path(path)
    if not (note_path.exists() and path.exists()):
        return RunNote(settings)
    note = RunNote(**json.loads(note_path.read_text(encoding="utf-8")))
    changed = sorted(k for k in note.settings.keys() | settings.keys() if note.settings.get(k) != settings.get(k))
    if not changed:
        return note
    if not replace_others:
        raise ConfigError(f"{path} was made by other settings ({', '.join(changed)}); --fresh replaces it.")
    path.unlink()
    return RunNote(settings)


def write_note(path: Path, note: RunNote) -> None:
    """Put the note beside the results in `path`, atomically."""
    note_path = _note_path(path)
    note_path.parent.mkdir(parents=True, exist_ok=True)
    part = note_path.with_suffix(".part")
    part.write_text(json.dumps(asdict(note), indent=1, sort_keys=True) + "\n", encoding="utf-8")
    part.replace(note_path)


def _note_path(path: Path) -> Path:
    return path.with_suffix(".run.json")
