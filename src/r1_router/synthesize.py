"""The synthesis of step data, stage by stage: rollouts, filter, combine; each reads files and writes files.

{out}/{set}.rollouts.jsonl                 every question's trajectory, dropped ones too; resumed by id
{out}/{set}.kept.jsonl, {set}.drops.json   what passed the filters, and how many each reason dropped
{out}/steps_train.jsonl, steps_valid.jsonl the rows, in the published form
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from r1_router import console, jsonl
from r1_router.config import load_config
from r1_router.datasets.places import PUBLISHED_ROOT
from r1_router.deployment import Deployment
from r1_router.errors import ConfigError, DataError
from r1_router.files import write_atomically
from r1_router.prompts import load_prompts
from r1_router.results import open_note, write_note
from r1_router.run import run_questions
from r1_router.sections import SynthesisConfig, SynthesisSet
from r1_router.synthesis.card import statistics, write_card
from r1_router.synthesis.filters import apply, filters_named
from r1_router.synthesis.gold import gold_trajectories
from r1_router.synthesis.leakage import Asked, published_questions, read_asked
from r1_router.synthesis.rows import step_row
from r1_router.synthesis.split import split
from r1_router.synthesis.teacher import dropped, teacher
from r1_router.types import Passage, Query, Question, Source, Trajectory

ROUTED = "r1-router"
BATCH = 64  # queries searched at once for gold trajectories


class Synthesis:
    """One run of the stages, as a deployment's `synthesis` section says."""

    def __init__(self, deployment: Deployment) -> None:
        if deployment.config.synthesis is None:
            raise ConfigError("synthesis: the config has no such section; configs/factbook.yaml shows one.")
        self._deployment = deployment
        self.config: SynthesisConfig = deployment.config.synthesis

    def rollouts(self, name: str) -> Path:
        """The teacher's trajectories for one set; what an earlier run left is resumed by id."""
        section, path = self._set(name), self.config.out / f"{name}.rollouts.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        deployment = self._deployment_of(section)
        if section.gold:
            jsonl.rewrite(path, (item.to_json() for item in self._gold(deployment, section)))
            return path
        settings = replace(deployment.settings(ROUTED), prompts=load_prompts(section.prompts))
        note = open_note(path, {**deployment.fingerprint(ROUTED), "teacher": section.prompts})
        write_note(path, note)
        questions = self._questions(section)
        with console.run_bar(f"teacher, {name}") as show:
            outcome = run_questions(
                teacher(settings),
                questions,
                deployment.llm(ROUTED),
                deployment.knowledge_bases(),
                path=path,
                concurrency=deployment.config.concurrency,
                on_progress=show,
            )
        if outcome.interrupted:
            raise KeyboardInterrupt
        return path

    def keep(self, name: str) -> Counter[str]:
        """Filter one set's rollouts; gives how many each reason dropped."""
        path = self.config.out / f"{name}.rollouts.jsonl"
        if not path.is_file():
            raise DataError(f"no file {path}: run the rollouts of {name} first.")
        order = {question.id: place for place, question in enumerate(self._questions(self._set(name)))}
        present = (item for item in self._read(path) if item.question.id in order)
        trajectories = sorted(present, key=lambda item: order[item.question.id])  # not in the order they were done
        reasons = Counter(
            reason for item in trajectories if (reason := dropped(item, self._deployment.config.max_steps))
        )
        answered = [item for item in trajectories if item.answer is not None]
        found = apply(answered, filters_named(self.config.filters), self.config.most)
        jsonl.rewrite(self.config.out / f"{name}.kept.jsonl", (item.to_json() for item in found.kept))
        drops = {"asked": len(trajectories), "kept": len(found.kept), "dropped": dict(reasons + found.dropped)}
        write_atomically(self.config.out / f"{name}.drops.json", json.dumps(drops, indent=1) + "\n")
        return reasons + found.dropped

    def combine(self) -> Mapping[str, int]:
        """Cut what was kept of every set into rows, split so that nothing is shared; gives the rows of each part."""
        of = {name: self._read(self.config.out / f"{name}.kept.jsonl") for name in self.config.sets}
        kept = [(name, item) for name, items in of.items() for item in items]
        if not kept:
            raise DataError(f"{self.config.out}: nothing was kept, so there is nothing to combine; see *.drops.json.")
        prompts, sources = load_prompts(self.config.prompts), self._deployment.sources()
        rows = [step_row(item, prompts, sources, self._deployment.config.shown) for _, item in kept]
        indices = split([item for _, item in kept], self.config.seed, self.config.validation_share)
        parts = dict(zip(("train", "valid"), indices, strict=True))
        for part, chosen in parts.items():
            jsonl.rewrite(self.config.out / f"steps_{part}.jsonl", (rows[n] for n in chosen))
        dropped_of = (json.loads((self.config.out / f"{name}.drops.json").read_text("utf-8")) for name in of)
        drops = sum((Counter(one["dropped"]) for one in dropped_of), Counter[str]())
        names = [name for name, _ in kept]
        write_card(self.config.out, statistics(rows, sets=names, dropped=drops, questions=self._asked_elsewhere()))
        return {part: len(chosen) for part, chosen in parts.items()}

    def _asked_elsewhere(self) -> dict[str, Asked | None]:
        """The questions that must not be trained on: those of the config's benchmarks and of the published sets."""
        config = self._deployment.config
        taught = {section.questions for section in self.config.sets.values()}
        own = {name: path for name, path in config.benchmarks.items() if name not in taught and path.is_file()}
        return {**published_questions(config.root / PUBLISHED_ROOT), **{name: read_asked(own[name]) for name in own}}

    def _gold(self, deployment: Deployment, section: SynthesisSet) -> Sequence[Trajectory]:
        bases = deployment.knowledge_bases()

        def search(source: Source, queries: Sequence[Query]) -> list[list[Passage]]:
            base: Any = bases[source]
            batches = [queries[at : at + BATCH] for at in range(0, len(queries), BATCH)]
            return [found for batch in batches for found in base.search_many(batch, deployment.config.retrieved)]

        questions = self._questions(section)
        return list(gold_trajectories(questions, tuple(bases), search, deployment.config.shown))

    def _read(self, path: Path) -> list[Trajectory]:
        if not path.is_file():
            raise DataError(f"no file {path}: run the stage that makes it first.")
        return [Trajectory.from_json(record, self._deployment.sources()) for record in jsonl.read(path)]

    def _questions(self, section: SynthesisSet) -> list[Question]:
        """A benchmark's questions, or those of a file; its path is taken from the config's root."""
        path = self._deployment.config.root / section.questions
        return self._deployment.questions(str(path) if path.is_file() else section.questions, section.limit)

    def _deployment_of(self, section: SynthesisSet) -> Deployment:
        """The set's own deployment, with a teacher of its own, or this one."""
        return Deployment(load_config(section.config)) if section.config else self._deployment

    def _set(self, name: str) -> SynthesisSet:
        if name not in self.config.sets:
            raise ConfigError(f"--dataset_name: no set is named {name!r}; there are {', '.join(self.config.sets)}.")
        return self.config.sets[name]
