"""Result files: where they are, what an earlier run left in them, and the note of what they were made by."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

from r1_router import jsonl
from r1_router.errors import ConfigError, DataError
from r1_router.files import write_atomically
from r1_router.types import Question, Source, Trajectory


def result_path(results_dir: Path, model: str, benchmark: str, method: str) -> Path:
    """Where the records of one method on one benchmark go, as the reference names it."""
    for part in (model, benchmark, method):
        if not part or part in (".", "..") or "/" in part or "\\" in part:
            raise ConfigError(f"results: {part!r} cannot be part of a file name; mend the name in the config.")
    return results_dir / model / f"{benchmark}_{method}.jsonl"


@dataclass(frozen=True, slots=True)
class Shard:
    """Part `number` of `of`, counted from 1: every `of`-th question, from the `number`-th on."""

    number: int
    of: int

    @staticmethod
    def parse(text: str) -> Shard:
        """From `2/4`; raises ConfigError for anything else."""
        found = re.fullmatch(r"(\d+)/(\d+)", text)
        shard = Shard(int(found[1]), int(found[2])) if found else None
        if shard is None or not 1 <= shard.number <= shard.of:
            raise ConfigError(f"--shard: {text!r} is no part of a whole; write 1/4 for the first of four.")
        return shard

    def pick(self, questions: Sequence[Question]) -> list[Question]:
        return list(questions[self.number - 1 :: self.of])

    def path(self, whole: Path) -> Path:
        """The file of this part of the results file `whole`."""
        return _shards(whole) / f"{whole.stem}.{self.number}-of-{self.of}.jsonl"


def merge_shards(whole: Path, questions: Sequence[Question], sources: Sequence[Source]) -> int:
    """Join the shard files of `whole` into it, in the order of the questions; gives how many have no record yet.

    What the whole holds already, made by the same settings, stays: a shard adds to it, and an answer takes the place of
    a failure, never the other way. Shards that were put aside are left out, and a whole that other settings made is put
    aside. Raises DataError where there are no shards, ConfigError where they were made by different settings.
    """
    name = re.compile(rf"{re.escape(whole.stem)}\.\d+-of-\d+\.jsonl")
    parts = sorted(path for path in _shards(whole).glob("*.jsonl") if name.fullmatch(path.name))
    if not parts:
        raise DataError(f"no shards of {whole.name} in {_shards(whole)}: run with --shard 1/4 and so on first.")
    notes = [read_note(part) for part in parts]
    if any(note.settings != notes[0].settings for note in notes):
        raise ConfigError(f"the shards in {_shards(whole)} were made by different settings; run them again alike.")
    noted = open_note(whole, notes[0].settings, replace_others=True)
    sharded = _best(parts, questions, sources)
    records = _best([*parts, whole] if whole.exists() else parts, questions, sources)
    jsonl.rewrite(whole, records.values())
    alone = len(records.keys() - sharded.keys())  # answered by runs of the whole: their time counts too
    seconds = sum(note.seconds for note in notes) + alone * (noted.seconds_per_question or 0.0)
    write_note(whole, RunNote(notes[0].settings, sum(note.answered for note in notes) + alone, seconds))
    return sum(question.id not in records for question in questions)


def _best(paths: Sequence[Path], questions: Sequence[Question], sources: Sequence[Source]) -> dict[str, jsonl.Record]:
    """One record a question, in the order of `questions` and then of the files: the first that answers, else fails."""
    asked = {question.id: question for question in questions}
    found: dict[str, tuple[bool, jsonl.Record]] = {}
    for path in paths:
        for record in jsonl.read(path):
            trajectory = Trajectory.from_json(record, sources)
            id_ = trajectory.question.id
            good = trajectory.error is None and (id_ not in asked or _answers(trajectory, asked[id_]))
            if id_ not in found or good > found[id_][0]:
                found[id_] = (good, record)
    order = [id_ for id_ in asked if id_ in found] + [id_ for id_ in found if id_ not in asked]
    return {id_: found[id_][1] for id_ in order}


def _shards(whole: Path) -> Path:
    return whole.parent / "shards"


def resume(path: Path, questions: Sequence[Question], sources: Sequence[Source]) -> dict[str, Trajectory]:
    """The answered questions in `path`, by id; failed ones leave the file, to be tried again.

    So does a record of one of `questions` that was answered while a knowledge base was down, or whose question has
    another text or picture by now.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    jsonl.repair_tail(path)
    records = list(jsonl.read(path)) if path.exists() else []
    asked = {question.id: question for question in questions}
    kept, done = [], {}
    for record in records:
        trajectory = Trajectory.from_json(record, sources)
        question = asked.get(trajectory.question.id)
        stands = question is None or _answers(trajectory, question)
        if trajectory.error is None and stands and trajectory.question.id not in done:
            kept.append(record)
            done[trajectory.question.id] = trajectory
    if len(kept) < len(records):
        jsonl.rewrite(path, kept)
    return {id_: replace(trajectory, question=asked[id_]) for id_, trajectory in done.items() if id_ in asked}


def is_through(path: Path, questions: Sequence[Question], sources: Sequence[Source]) -> bool:
    """Whether `path` has an answer to every question, so that nothing need be loaded to resume it."""
    return len(resume(path, questions, sources)) == len(questions)


def _answers(trajectory: Trajectory, question: Question) -> bool:
    """Whether the trajectory is of this very question, with all the evidence that was asked for."""
    return _asked(trajectory.question) == _asked(question) and not trajectory.usage.unanswered


def _asked(question: Question) -> tuple[str, str]:
    return question.text, Path(question.image or "").name


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
    the noted ones, or nothing is noted, raises ConfigError, or puts the old results aside if `replace_others`.
    """
    settings = json.loads(json.dumps(settings))  # as they will be read back
    if not path.exists() or path.stat().st_size == 0:
        return RunNote(settings)
    note = read_note(path)
    changed = _changes(note.settings, settings)
    if not changed:
        return note
    if not replace_others:
        raise ConfigError(f"{path} was made by other settings ({'; '.join(changed)}); --fresh puts it aside.")
    _put_aside(path)
    return RunNote(settings)


def _changes(noted: Mapping[str, Any], settings: Mapping[str, Any]) -> list[str]:
    """The keys that differ, in order; numbers with both values, as `shown: 3 then, 5 now`, digests by their name."""
    changed = sorted(key for key in noted.keys() | settings.keys() if noted.get(key) != settings.get(key))
    pairs = [(key, noted.get(key), settings.get(key)) for key in changed]
    plain = (int, float)  # and bool, which is an int
    return [
        f"{key}: {old} then, {new} now" if isinstance(old, plain) and isinstance(new, plain) else key
        for key, old, new in pairs
    ]


def write_note(path: Path, note: RunNote) -> None:
    """Put the note beside the results in `path`, atomically."""
    write_atomically(_note_path(path), json.dumps(asdict(note), indent=1, sort_keys=True) + "\n")


def read_note(path: Path) -> RunNote:
    """The note beside the results in `path`; one without settings, which equal none, where it is missing or torn."""
    try:
        return RunNote(**json.loads(_note_path(path).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return RunNote({})


def _put_aside(path: Path) -> None:
    """Rename the results to the first free `NAME.1.jsonl`, `NAME.2.jsonl`, .., and their note likewise."""
    aside = next(free for n in count(1) if not (free := path.with_suffix(f".{n}.jsonl")).exists())
    path.rename(aside)
    if (note := _note_path(path)).exists():
        note.rename(_note_path(aside))


def _note_path(path: Path) -> Path:
    return path.with_suffix(".run.json")
