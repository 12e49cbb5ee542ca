"""Makes a corpus of a source: several workers, resumed piece by piece, whole once its manifest is there.

corpus/passages-00000.jsonl ..   {"id", "title", "text"} a line, a million lines a shard
corpus/manifest.json             what it was made from, what was left out and why, the shards' checksums
corpus/.work/                    while it is being made: the plan, a journal of the pieces done, their passages
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from r1_router import jsonl
from r1_router.corpora.dump import open_dump
from r1_router.corpora.manifest import MANIFEST, Manifest, counts_by_reason, read_manifest, write_manifest
from r1_router.corpora.passages import FAILURES_LISTED, PASSAGES, Done, Task, without
from r1_router.corpora.pieces import Rules, Source
from r1_router.corpora.seen import Seen
from r1_router.corpora.shards import End, append, finished_shards, rewind
from r1_router.corpora.wikiextractor import Extracted
from r1_router.corpora.windows import Windowing
from r1_router.corpora.workers import in_order
from r1_router.errors import ConfigError, DataError
from r1_router.files import held, write_atomically

Progress = Callable[[int, int], None]
WORK, PLAN, JOURNAL = ".work", "plan.json", "journal.jsonl"


@dataclass(frozen=True, slots=True)
class Settings:
    """How a corpus is made: equal settings and inputs give the same bytes, with any number of workers."""

    rules: Rules = Rules.MENDED
    windowing: Windowing = field(default_factory=Windowing)
    shard_passages: int = 1_000_000

    def __post_init__(self) -> None:
        if self.shard_passages < 1:
            raise ConfigError(f"A shard of {self.shard_passages} passages holds nothing: give 1 or more.")

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "rules": self.rules.value}


PUBLISHED = Settings()
REFERENCE = Settings(Rules.REFERENCE, Windowing(duplicate_last=True))
"""What the reference makes of the same source, had it put the title first and not, by a slip, a function's name."""


@dataclass(frozen=True, slots=True)
class Corpus:
    """The outcome: where it is, what its manifest says, and whether it was there already."""

    folder: Path
    manifest: Manifest
    reused: bool


def build_corpus(
    source: Source,
    output: Path,
    settings: Settings = PUBLISHED,
    *,
    workers: int = 1,
    progress: Progress = lambda done, total: None,
) -> Corpus:
    """Turn a source into a corpus in `output`, unless that is there already.

    `progress` is called with how much of the source's total is done, and the total. A build that is cut short goes on
    after the last piece done. No file of the user's is replaced. Raises ConfigError for an `output` with other files or
    another corpus in it, DataError for inputs that cannot be opened or give no passage, and for a full disk.
    """
    if workers < 1:
        raise ConfigError(f"{workers} workers do nothing: give 1 or more.")
    output = output.resolve()
    if output.is_relative_to(source.path):
        raise ConfigError(f"{output} lies in {source.path}, which is read whole: give an output folder outside of it.")
    plan = {"source": source.identity(), "settings": settings.to_json()}
    try:
        with held(output.with_name(f".{output.name}.lock")):
            if (output / MANIFEST).exists():
                return Corpus(output, _reused(output, plan), reused=True)
            _begin(output, plan)
            done, end = _work(output, source, settings, workers, progress)
            return Corpus(output, _finish(output, source, plan, done, end), reused=False)
    except OSError as error:
        raise DataError(f"{output}: not built ({error}); once that is mended, the same command goes on.") from error


def _reused(output: Path, plan: Mapping[str, Any]) -> Manifest:
    """The manifest of the corpus that is there; raises ConfigError unless it was made from just these inputs."""
    manifest = read_manifest(output)
    if manifest.settings != plan["settings"] or manifest.source["sha256"] != _digest(plan):
        raise ConfigError(
            f"{output} holds a corpus of other files or settings: give another output folder, or remove this one."
        )
    shutil.rmtree(output / WORK, ignore_errors=True)  # a kill just after the manifest was written leaves it
    return manifest


def _begin(output: Path, plan: Mapping[str, Any]) -> None:
    """Write the plan of a new build, or see that the one begun here has the same."""
    text = json.dumps(plan)
    path = output / WORK / PLAN
    if path.is_file():
        if path.read_text(encoding="utf-8") != text:
            raise ConfigError(
                f"{output} was begun with other files or settings: give another output folder, or remove this one."
            )
        return
    if output.exists() and (output.is_file() or any(entry.name != WORK for entry in output.iterdir())):
        raise ConfigError(f"{output} is not empty and no corpus: give another output folder.")
    write_atomically(path, text)


def _work(output: Path, source: Source, settings: Settings, workers: int, progress: Progress) -> tuple[list[Done], End]:
    """Go through the pieces that the journal lacks, in order; gives what became of all of them."""
    work = output / WORK
    for left in work.glob("parts-*"):
        shutil.rmtree(left, ignore_errors=True)
    done, end, reached = _journalled(work / JOURNAL)
    rewind(output, end)
    seen, total = Seen(), source.total
    for one in done:
        seen.add(one.ids)
    progress(reached, total)
    with TemporaryDirectory(prefix="parts-", dir=work) as parts:
        tasks = islice(_tasks(source, settings, Path(parts)), len(done), None)
        with closing(in_order(tasks, workers)) as results:
            for task, result in results:
                if repeated := seen.add(result.ids):
                    result = without(result, task.output, repeated)
                end = append(output, end, task.output, result.counts.get(PASSAGES, 0), settings.shard_passages)
                record = {"done": asdict(result), "end": asdict(end), "reached": task.piece.reached}
                jsonl.append(work / JOURNAL, record, durable=True)
                task.output.unlink()
                done.append(result)
                progress(task.piece.reached, total)
    return done, end


def _tasks(source: Source, settings: Settings, parts: Path) -> Iterator[Task]:
    for number, piece in enumerate(source.pieces()):
        yield Task(piece, parts / f"{number}.jsonl", settings.rules, settings.windowing)


def _journalled(journal: Path) -> tuple[list[Done], End, int]:
    """What an earlier call did, where its passages end, and how much of the source's total that was."""
    jsonl.repair_tail(journal)
    records = list(jsonl.read(journal)) if journal.exists() else []
    if not records:
        return [], End(), 0
    return [Done(**record["done"]) for record in records], End(**records[-1]["end"]), records[-1]["reached"]


def _finish(output: Path, source: Source, plan: Mapping[str, Any], done: list[Done], end: End) -> Manifest:
    """Count, hash and write the manifest; raises DataError where there is not one passage."""
    counts: Counter[str] = Counter()
    for one in done:
        counts.update(one.counts)
    failures = [line for one in done for line in one.failures][:FAILURES_LISTED]
    if not counts[PASSAGES]:
        why = f"The first failure: {failures[0]}." if failures else "Every document was skipped, or there is none."
        raise DataError(
            f"{source.path}: no passage came of it. {why} {source.wanted}; remove {output} if that is to go there."
        )
    files = len(plan["source"]["files"])
    manifest = Manifest(
        source={"reader": source.reader, "name": source.path.name, "files": files, "sha256": _digest(plan)},
        settings=plan["settings"],
        counts=counts_by_reason(counts),
        failures=failures,
        shards=finished_shards(output, end, plan["settings"]["shard_passages"]),
    )
    write_manifest(output, manifest)
    shutil.rmtree(output / WORK, ignore_errors=True)
    return manifest


def _digest(plan: Mapping[str, Any]) -> str:
    """One checksum for all inputs, names and contents."""
    return hashlib.sha256(json.dumps(plan["source"]["files"]).encode()).hexdigest()


def wikipedia(
    source: Path,
    output: Path,
    *,
    extracted: bool,
    workers: int,
    reference: bool = False,
    duplicate_last: bool = False,
    progress: Progress = lambda done, total: None,
) -> Corpus:
    """What the commands call: a dump, or what WikiExtractor made of one, in windows of 100 words.

    `reference` reads and cuts with all oddities of the reference, `duplicate_last` has only its repeated windows.
    """
    mended = Settings(windowing=Windowing(duplicate_last=duplicate_last))
    opened: Source = Extracted(source.resolve()) if extracted else open_dump(source.resolve())
    return build_corpus(opened, output, REFERENCE if reference else mended, workers=workers, progress=progress)
