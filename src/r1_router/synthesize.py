"""The synthesis of step data, stage by stage: questions, rollouts, filter, combine; each reads files and writes files.

{out}/{set}.questions.jsonl                the questions of a set that are generated; the draws stand beside it
{out}/{set}.rollouts.jsonl                 every question's trajectory, dropped ones too; resumed by id
{out}/{set}.needed.jsonl                   final answers without one retrieval, where the filter `needed` is set
{out}/{set}.kept.jsonl, {set}.drops.json   what passed the filters, and how many each reason dropped
{out}/steps_train.jsonl, steps_valid.jsonl the rows, in the published form; card.md and stats.json tell of them
{out}/replies_train.jsonl, replies_valid.jsonl the same steps for supervised tuning, each with the reply to write
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from r1_router import jsonl
from r1_router.config import Config, load_config
from r1_router.datasets.places import PUBLISHED_ROOT
from r1_router.deployment import Deployment
from r1_router.errors import ConfigError, DataError, MissingDependency
from r1_router.files import write_atomically
from r1_router.sections import SynthesisConfig, SynthesisSet
from r1_router.synthesis.card import Tokenizer, statistics, write_card
from r1_router.synthesis.filters import NEEDED, Filter, answers_rightly, apply, filters_named, first_failed
from r1_router.synthesis.gold import gold_trajectories
from r1_router.synthesis.leakage import Asked, published_questions, read_asked
from r1_router.synthesis.needed import concluding, needed, trials
from r1_router.synthesis.pictures import BRING, REFER, placed
from r1_router.synthesis.rows import reply_rows, step_row
from r1_router.synthesis.split import split
from r1_router.synthesis.teacher import dropped, teacher
from r1_router.teaching import Teacher
from r1_router.types import Passage, Query, Question, Source, Trajectory, Usage

UNREADABLE = "gold not shown"
"""Why a question has no gold trajectory: not all of its hops can be read from the passages shown."""
BATCH = 64  # queries searched at once for gold trajectories


class Synthesis:
    """One run of the stages, as a deployment's `synthesis` section says."""

    def __init__(self, deployment: Deployment, *, fresh: bool = False) -> None:
        if deployment.config.synthesis is None:
            raise ConfigError("synthesis: the config has no such section; configs/factbook.yaml shows one.")
        self._deployment = deployment
        self._fresh = fresh
        self.config: SynthesisConfig = deployment.config.synthesis
        _check(self.config)

    def rollouts(self, name: str) -> Path:
        """The teacher's trajectories for one set; what an earlier run left is resumed by id."""
        section, path = self._set(name), self._file(name, "rollouts")
        master = self._teacher(section)
        if section.generate:
            master.make_questions(self._file(name, "questions"), self.config.seed)
        if section.gold:
            jsonl.rewrite(path, (item.to_json() for item in self._gold(master.deployment, name)))
            return path
        filters, max_steps = self._plain_filters(), master.deployment.config.max_steps
        master.run(
            teacher(master.settings, thought_opened=section.thought_opened),
            self._questions(name),
            path,
            reason=lambda item: dropped(item, max_steps) or first_failed(item, filters),
            note={"thought_opened": True} if section.thought_opened else {},
        )
        return path

    def keep(self, name: str) -> Counter[str]:
        """Filter one set's rollouts; gives how many each reason dropped."""
        questions, max_steps = self._questions(name), self._teacher(self._set(name)).deployment.config.max_steps
        done = {item.question.id: item for item in self._read(self._file(name, "rollouts"))}
        asked = [question for question in questions if question.id in done]
        found = [replace(done[one.id], question=one, usage=Usage()) for one in asked]  # the same bytes in every run
        reasons = Counter(reason for item in found if (reason := dropped(item, max_steps)))
        if self._set(name).gold and len(asked) < len(questions):
            reasons[UNREADABLE] = len(questions) - len(asked)
        answered = [item for item in found if item.answer is not None]
        passed = apply(answered, self._filters(name, answered), self.config.most)
        jsonl.rewrite(self._file(name, "kept"), (item.to_json() for item in passed.kept))
        drops = {
            "asked": len(found) + reasons[UNREADABLE],
            "kept": len(passed.kept),
            "dropped": dict(reasons + passed.dropped),
        }
        write_atomically(self.config.out / f"{name}.drops.json", json.dumps(drops, indent=1) + "\n")
        return reasons + passed.dropped

    def combine(self) -> Mapping[str, int]:
        """Cut what was kept of every set into rows, split so that nothing is shared; gives the rows of each part.

        The rows are written as the trained model will be asked, with image paths from the folder of the rows.
        """
        of = {name: self._read(self._file(name, "kept")) for name in self.config.sets}
        kept = [item for items in of.values() for item in items]
        if not kept:
            raise DataError(f"{self.config.out}: nothing was kept, so there is nothing to combine; see *.drops.json.")
        config, prompts = self._deployment.config, self._deployment.prompt_set(self.config.prompts)
        asked, form = self._as_read(kept), (prompts, self._deployment.sources(), config.shown)
        rows = [step_row(item, *form) for item in asked]
        indices = split(kept, self.config.seed, self.config.validation_share)
        parts = dict(zip(("train", "valid"), indices, strict=True))
        for part, chosen in parts.items():
            jsonl.rewrite(self.config.out / f"steps_{part}.jsonl", (rows[n] for n in chosen))
            replies = (row for n in chosen for row in reply_rows(asked[n], *form))
            jsonl.rewrite(self.config.out / f"replies_{part}.jsonl", replies)
        dropped_of = (json.loads((self.config.out / f"{name}.drops.json").read_text("utf-8")) for name in of)
        figures = statistics(
            rows,
            sets=[name for name, items in of.items() for _ in items],
            dropped=sum((Counter(one["dropped"]) for one in dropped_of), Counter[str]()),
            questions=self._asked_elsewhere(),
            tokenizer=self._tokenizer(),
        )
        write_card(self.config.out, figures)
        return {part: len(chosen) for part, chosen in parts.items()}

    def _as_read(self, kept: Sequence[Trajectory]) -> list[Trajectory]:
        """The trajectories with their questions as a model reads them, and their pictures where the rows have them."""
        pictures = [item.question.image for item in kept if item.question.image]
        images = placed(pictures, self.config.out, self.config.images)

        def read(question: Question) -> Question:
            text = question.text.lower() if self._deployment.config.lower_case else question.text
            return replace(question, text=text, image=question.image and images[question.image])

        return [replace(item, question=read(item.question)) for item in kept]

    def _filters(self, name: str, answered: Iterable[Trajectory]) -> list[Filter]:
        """The config's filters; for `needed` the teacher is asked about what passes all others."""
        plain = self._plain_filters()
        if NEEDED not in self.config.filters:
            return plain
        master = self._teacher(self._set(name))
        asked = {one.question.id: one for item in apply(answered, plain).kept for one in trials(item)}
        outcome = master.run(
            concluding(master.settings, asked),
            [one.question for one in asked.values()],
            self._file(name, NEEDED),
            reason=lambda item: NEEDED if answers_rightly(item) else None,
        )
        return [*plain, needed(outcome.trajectories)]

    def _plain_filters(self) -> list[Filter]:
        return [one for one in filters_named(self.config.filters) if one.name != NEEDED]

    def _asked_elsewhere(self) -> dict[str, Asked | None]:
        """The questions that must not be trained on: those of the config's benchmarks and of the published sets."""
        config = self._deployment.config
        taught = {section.questions for section in self.config.sets.values()}
        own = {name: path for name, path in config.benchmarks.items() if name not in taught and path.is_file()}
        return {**published_questions(config.root / PUBLISHED_ROOT), **{name: read_asked(own[name]) for name in own}}

    def _gold(self, deployment: Deployment, name: str) -> Sequence[Trajectory]:
        bases = deployment.knowledge_bases()

        def search(source: Source, queries: Sequence[Query]) -> list[list[Passage]]:
            base: Any = bases[source]
            batches = [queries[at : at + BATCH] for at in range(0, len(queries), BATCH)]
            return [found for batch in batches for found in base.search_many(batch, deployment.config.retrieved)]

        return list(gold_trajectories(self._questions(name), tuple(bases), search, deployment.config.shown))

    def _read(self, path: Path) -> list[Trajectory]:
        if not path.is_file():
            raise DataError(f"no file {path}: run the stage that makes it first.")
        return [Trajectory.from_json(record, self._deployment.sources()) for record in jsonl.read(path)]

    def _questions(self, name: str) -> list[Question]:
        """A benchmark's questions, those of a file (its path is taken from the config's root), or generated ones."""
        section = self._set(name)
        path = self._file(name, "questions") if section.generate else self._deployment.config.root / section.questions
        is_file = section.generate or path.is_file()
        return self._deployment.questions(str(path) if is_file else section.questions, section.limit)

    def _teacher(self, section: SynthesisSet) -> Teacher:
        """The set's own deployment, where it names one with a teacher of its own, or this one."""
        deployment = Deployment(load_config(section.config)) if section.config else self._deployment
        return Teacher(deployment, section, self._fresh)

    def _tokenizer(self) -> Tokenizer | None:
        """The trained model's, of the folder that the config names, or of the language model's where it has one."""
        config = self._deployment.config
        file = (self.config.tokenizer or config.root / config.llm.model) / "tokenizer.json"
        if not file.is_file():
            if self.config.tokenizer:
                raise ConfigError(f"synthesis.tokenizer: no file {file}; give a model's folder, or leave the key out.")
            return None
        try:
            from tokenizers import Tokenizer as Loaded
        except ModuleNotFoundError as error:
            raise MissingDependency("the card counts tokens with tokenizers: pip install tokenizers") from error
        loaded: Tokenizer = Loaded.from_file(str(file))
        return loaded

    def _file(self, name: str, stage: str) -> Path:
        return self.config.out / f"{name}.{stage}.jsonl"

    def _set(self, name: str) -> SynthesisSet:
        if name not in self.config.sets:
            raise ConfigError(f"synthesis.sets: none is named {name!r}; there are {', '.join(self.config.sets)}.")
        return self.config.sets[name]


def with_set(config: Config, name: str, section: SynthesisSet) -> Config:
    """The config with one set in place of its own, and a folder of its own for the files."""
    found = config.synthesis or SynthesisConfig(config.root / "runs", {})
    asked = replace(section, prompts=config.prompts)
    return replace(config, synthesis=replace(found, out=found.out / name, sets={name: asked}))


def _check(config: SynthesisConfig) -> None:
    """What types cannot say; found before a teacher is asked for hours."""
    filters_named(config.filters)
    if config.images not in (REFER, *BRING):
        raise ConfigError(f"synthesis.images: {config.images!r} is not known; there are {', '.join((REFER, *BRING))}.")
    for name, section in config.sets.items():
        if bool(section.questions) == bool(section.generate):
            raise ConfigError(f"synthesis.sets.{name}: give either `questions` or `generate`, the number to try for.")
