"""Makes a corpus of an extracted Wikipedia: several workers, resumed by input file, whole once its manifest is there.

corpus/passages-00000.jsonl ..   {"id", "title", "text"} a line, a million lines a shard
corpus/manifest.json             what it was made from, what was left out and why, the shards' checksums
corpus/.work/                    while it is being made: the plan, a journal of the input files done, their passages
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from r1_router import jsonl
from r1_router.corpora.manifest import MANIFEST, Manifest, counts_by_reason, read_manifest, write_manifest
from r1_router.corpora.passages import FAILURES_LISTED, PASSAGES, Done, Task
from r1_router.corpora.shards import End, append, finished_shards, rewind
from r1_router.corpora.wikiextractor import Rules
from r1_router.corpora.windows import Windowing
from r1_router.corpora.workers import in_order
from r1_router.errors import ConfigError, DataError
from r1_router.files import held, sha256_of, write_atomically

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
"""What the reference makes of the same folder, had it put the title first and not, by a slip, a function's name."""


@dataclass(frozen=True, slots=True)
class Corpus:
    """The outcome: where it is, what its manifest says, and whether it was there already."""

    folder: Path
    manifest: Manifest
    reused: bool


def build_corpus(
    source: Path,
    output: Path,
    settings: Settings = PUBLISHED,
    *,
    workers: int = 1,
    progress: Progress = lambda done, total: None,
) -> Corpus:
    """Turn what WikiExtractor wrote, a folder or one file, into a corpus in `output`, unless that is there already.

    `progress` is called with the input files done and their number. A build that is cut short goes on after the last
    file done. No file of the user's is replaced. Raises ConfigError for an `output` with other files or another corpus
    in it, DataError for inputs that cannot be opened, changed under way or give no passage, and for a full disk.
    """
    if workers < 1:
        raise ConfigError(f"{workers} workers do nothing: give 1 or more.")
    source, output = source.resolve(), output.resolve()
    files = input_files(source)
    if output.is_relative_to(source):
        raise ConfigError(f"{output} lies in {source}, which is read whole: give an output folder outside of it.")
    try:
        with held(output.with_name(f".{output.name}.lock")):
            if (output / MANIFEST).exists():
                return Corpus(output, _reused(output, files, settings), reused=True)
            _begin(output, files, settings)
            done, end = _work(output, files, settings, workers, progress)
            return Corpus(output, _finish(output, source, settings, done, end), reused=False)
    except OSError as error:
        raise DataError(f"{output}: not built ({error}); once that is mended, the same command goes on.") from error


def input_files(source: Path) -> dict[str, Path]:
    """The files to read by their path from `source`, in the order of those paths; hidden ones are left out.

    Raises DataError where there are none, or where one of them stands beside its own compressed copy.
    """
    if source.is_file():
        return {source.name: source}
    found = {path.relative_to(source): path for path in source.rglob("*") if path.is_file()}
    visible = {name: path for name, path in found.items() if not any(part.startswith(".") for part in name.parts)}
    if not visible:
        raise DataError(f"No files in {source}: give the folder, or the file, that WikiExtractor wrote.")
    files = {name.as_posix(): path for name, path in visible.items()}
    for name in files:
        if (plain := name.removesuffix(".bz2").removesuffix(".gz")) != name and plain in files:
            raise DataError(f"{source} holds both {plain} and {name}, the same documents twice: remove one of them.")
    return dict(sorted(files.items()))


def _reused(output: Path, files: Mapping[str, Path], settings: Settings) -> Manifest:
    """The manifest of the corpus that is there; raises ConfigError unless it was made from just these inputs."""
    manifest = read_manifest(output)
    checksums = {name: sha256_of(path) for name, path in files.items()}
    if manifest.settings != settings.to_json() or manifest.source["sha256"] != _digest(checksums):
        raise ConfigError(
            f"{output} holds a corpus of other files or settings: give another output folder, or remove this one."
        )
    shutil.rmtree(output / WORK, ignore_errors=True)  # a kill just after the manifest was written leaves it
    return manifest


def _begin(output: Path, files: Mapping[str, Path], settings: Settings) -> None:
    """Write the plan of a new build, or see that the one begun here has the same."""
    plan = json.dumps({"files": list(files), "settings": settings.to_json()})
    path = output / WORK / PLAN
    if path.is_file():
        if path.read_text(encoding="utf-8") != plan:
            raise ConfigError(
                f"{output} was begun with other files or settings: give another output folder, or remove this one."
            )
        return
    if output.exists() and (output.is_file() or any(entry.name != WORK for entry in output.iterdir())):
        raise ConfigError(f"{output} is not empty and no corpus: give another output folder.")
    write_atomically(path, plan)


def _work(
    output: Path, files: Mapping[str, Path], settings: Settings, workers: int, progress: Progress
) -> tuple[list[Done], End]:
    """Go through the files that the journal lacks, in order; gives what became of all of them."""
    work = output / WORK
    for left in work.glob("parts-*"):
        shutil.rmtree(left, ignore_errors=True)
    done, end = _journalled(work / JOURNAL, files)
    rewind(output, end)
    progress(len(done), len(files))
    with TemporaryDirectory(prefix="parts-", dir=work) as parts:
        tasks = [
            Task(path, name, Path(parts) / f"{number}.jsonl", settings.rules, settings.windowing)
            for number, (name, path) in enumerate(files.items())
        ][len(done) :]
        with closing(in_order(tasks, workers)) as results:
            for task, result in zip(tasks, results, strict=True):
                end = append(output, end, task.output, result.counts.get(PASSAGES, 0), settings.shard_passages)
                jsonl.append(work / JOURNAL, {"done": asdict(result), "end": asdict(end)}, durable=True)
                task.output.unlink()
                done.append(result)
                progress(len(done), len(files))
    return done, end


def _journalled(journal: Path, files: Mapping[str, Path]) -> tuple[list[Done], End]:
    """What an earlier call did, and where its passages end; raises DataError where an input is another file now."""
    jsonl.repair_tail(journal)
    records = list(jsonl.read(journal)) if journal.exists() else []
    done = [Done(**record["done"]) for record in records]
    for one in done:
        if sha256_of(files[one.name]) != one.sha256:
            raise DataError(f"{files[one.name]} changed since it was read: remove {journal.parents[1]}, build it anew.")
    return done, End(**records[-1]["end"]) if records else End()


def _finish(output: Path, source: Path, settings: Settings, done: list[Done], end: End) -> Manifest:
    """Count, hash and write the manifest; raises DataError where there is not one passage."""
    counts: Counter[str] = Counter()
    for one in done:
        counts.update(one.counts)
    failures = [line for one in done for line in one.failures][:FAILURES_LISTED]
    if not counts[PASSAGES]:
        why = f"The first failure: {failures[0]}." if failures else "Every document was skipped, or there is none."
        raise DataError(
            f"{source}: no passage came of it. {why} "
            f"Give what WikiExtractor wrote; remove {output} if that is to go there."
        )
    checksums = {one.name: one.sha256 for one in done}
    manifest = Manifest(
        source={"reader": "wikiextractor", "name": source.name, "files": len(done), "sha256": _digest(checksums)},
        settings=settings.to_json(),
        counts=counts_by_reason(counts),
        failures=failures,
        shards=finished_shards(output, end, settings.shard_passages),
    )
    write_manifest(output, manifest)
    shutil.rmtree(output / WORK, ignore_errors=True)
    return manifest


def _digest(checksums: Mapping[str, str]) -> str:
    """One checksum for all inputs, names and contents."""
    return hashlib.sha256(json.dumps(checksums).encode()).hexdigest()


def wikipedia_extracted(
    source: Path,
    output: Path,
    *,
    workers: int,
    reference: bool = False,
    duplicate_last: bool = False,
    progress: Progress = lambda done, total: None,
) -> Corpus:
    """What the commands call: `build_corpus` with the published windows, or with all oddities of the reference."""
    mended = Settings(windowing=Windowing(duplicate_last=duplicate_last))
    return build_corpus(source, output, REFERENCE if reference else mended, workers=workers, progress=progress)
