"""A set's teacher at work: one run over questions, noted, resumed, told as it goes; and the questions it makes."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from r1_router import console, jsonl
from r1_router.deployment import Deployment
from r1_router.errors import ConfigError, DataError
from r1_router.files import write_atomically
from r1_router.methods import Settings
from r1_router.prompts.sets import prompt_texts
from r1_router.results import open_note, write_note
from r1_router.run import Outcome, run_questions
from r1_router.sections import SynthesisSet
from r1_router.synthesis.draws import Draw, Shelf, draw_all
from r1_router.synthesis.generation import DROPPED, MADE, PROMPTS, generator
from r1_router.synthesis.leakage import normalised
from r1_router.synthesis.pictures import COPY, placed
from r1_router.synthesis.tally import Tally
from r1_router.types import Method, Question, Trajectory

ROUTED = "r1-router"
"""The method or variant whose engine and settings the teacher has."""


@dataclass(frozen=True, slots=True)
class Teacher:
    """The engine and the knowledge bases of one set; with `fresh` what other settings left is put aside."""

    deployment: Deployment
    section: SynthesisSet
    fresh: bool = False

    @property
    def settings(self) -> Settings:
        prompts = self.deployment.prompt_set(self.section.prompts)
        return replace(self.deployment.settings(ROUTED), prompts=prompts)

    def run(
        self,
        method: Method,
        questions: Sequence[Question],
        path: Path,
        *,
        reason: Callable[[Trajectory], str | None],
        note: Mapping[str, Any] | None = None,
    ) -> Outcome:
        """Run `method` on the questions that `path` lacks; `reason` says for the progress what will be dropped."""
        path.parent.mkdir(parents=True, exist_ok=True)
        settings = {**self.deployment.fingerprint(ROUTED), "teacher": self.section.prompts, **(note or {})}
        write_note(path, open_note(path, settings, replace_others=self.fresh))
        llm, bases = self.deployment.for_run(ROUTED, questions, path)
        tally = Tally(path.stem, len(questions), lambda line: console.errors.print(line))
        with console.run_bar(path.stem) as show:
            outcome = run_questions(
                tally.counting(method, reason),
                questions,
                llm,
                bases,
                path=path,
                concurrency=self.deployment.config.concurrency,
                on_progress=show,
            )
        if outcome.interrupted:
            raise KeyboardInterrupt
        return outcome

    def make_questions(self, path: Path, seed: int) -> Path:
        """Write a question file of what the knowledge bases hold; the draws stand beside it, kept ones and dropped."""
        draws = {draw.id: draw for draw in draw_all(self._shelves(), seed, self.section.generate or 0)}
        record = path.with_suffix(".draws.jsonl")
        self.run(
            generator(self.settings, draws),
            [draw.question() for draw in draws.values()],
            record,
            reason=lambda item: item.question.extra.get(DROPPED),
            note={"generation": _digest(prompt_texts(PROMPTS))},
        )
        rows, dropped = _distinct(jsonl.read(record), draws)
        pictures = [row["image"] for row in rows if row["image"]]
        images = placed(pictures, path.parent, COPY, within=path.with_suffix(".pictures").name)
        jsonl.rewrite(path, ({**row, "image": row["image"] and images[row["image"]]} for row in rows))
        counts = {"asked": len(draws), "kept": len(rows), "dropped": dropped}
        write_atomically(path.with_suffix(".drops.json"), json.dumps(counts, indent=1) + "\n")
        if not rows:
            raise DataError(f"{path}: of {len(draws)} draws none gave a question; {record} has the reasons.")
        return path

    def _shelves(self) -> list[Shelf]:
        """The bases whose passages are here; one that another machine serves cannot be drawn from."""
        from r1_router.retrieval.store import open_store

        sections = zip(self.deployment.sources(), self.deployment.config.sources, strict=True)
        shelves = [
            Shelf(source, open_store(one.passages), one.image_root or one.passages.resolve().parents[1])
            for source, one in sections
            if one.passages.is_file()
        ]
        if not shelves:
            raise ConfigError("generate: no source has its `passages` file here, so there is nothing to draw from.")
        return shelves


def _distinct(records: Any, draws: Mapping[str, Draw]) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """The questions made, in the order of the draws and each once, and how many each reason dropped."""
    of = {record["id"]: record for record in records}
    rows: dict[tuple[str, str | None], dict[str, Any]] = {}
    dropped: Counter[str] = Counter()
    for id_ in draws:
        record = of.get(id_, {})
        row = record.get(MADE)
        if row is None:
            dropped[record.get(DROPPED, "failed")] += 1
        elif (asked := (normalised(row["question"]), row["image"])) in rows:
            dropped["asked before"] += 1
        else:
            rows[asked] = row
    return list(rows.values()), dict(dropped.most_common())


def _digest(value: Any) -> str:
    return hashlib.sha256(repr(sorted(value.items())).encode()).hexdigest()[:16]
