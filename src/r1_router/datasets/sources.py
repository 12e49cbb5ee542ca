"""Where each set's pictures come from: what a user brings, and how the needed ones are taken out of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from r1_router.benchmarks import Benchmark
from r1_router.datasets.folders import from_files
from r1_router.datasets.links import from_links
from r1_router.datasets.pictures import Pictures, pictures_of
from r1_router.datasets.places import Progress, State, questions_file
from r1_router.datasets.tsv import from_tsv
from r1_router.errors import ConfigError, DataError
from r1_router.files import held


@dataclass(frozen=True, slots=True)
class PictureSource:
    """What `--from` takes for one set, in words, and the function that takes the pictures out of it."""

    expects: str
    take: Callable[[Path, Pictures, Progress], dict[str, str]]


PICTURE_SOURCES = {
    "infoseek": PictureSource(
        "a folder, .tar or .zip file with OVEN's pictures named by id (oven_04990048.jpg), or a folder of such files; "
        "github.com/open-vision-language/oven, image_downloads, says how to get them",
        from_files,
    ),
    "dyn_vqa": PictureSource(
        "github.com/Alibaba-NLP/OmniSearch/blob/main/dataset/DynVQA_en/DynVQA_en.202412.jsonl, saved to a file; the "
        "pictures are fetched from the addresses in it",
        from_links,
    ),
    "webqa": PictureSource(
        "imgs.tsv with imgs.lineidx beside it, or their folder: `7z x imgs.7z.001` unpacks the 51 parts that "
        "github.com/WebQnA/WebQA points to",
        from_tsv,
    ),
}


@dataclass(frozen=True, slots=True)
class Gathered:
    """What a call brought, what is there by now, and which pictures it met but could not keep, with the reason."""

    brought: int
    present: int
    needed: int
    faults: dict[str, str]


def gather_pictures(root: Path, benchmark: Benchmark, source: Path, progress: Progress) -> Gathered:
    """Bring the set's missing pictures out of `source`; pictures that are there are left alone."""
    if benchmark.name not in PICTURE_SOURCES:
        raise ConfigError(f"datasets images: {benchmark.name} has no pictures; there are {', '.join(PICTURE_SOURCES)}.")
    kind = PICTURE_SOURCES[benchmark.name]
    if not source.exists():
        raise DataError(f"--from: there is no {source}. {benchmark.name} takes {kind.expects}.")
    pictures = pictures_of(questions_file(root, benchmark), benchmark)
    with held(root / ".lock"):
        before = _present(pictures)
        faults = kind.take(source, pictures, progress)
        present = _present(pictures)
    return Gathered(present - before, present, len(pictures.states()), faults)


def _present(pictures: Pictures) -> int:
    return sum(state is State.PRESENT for state in pictures.states().values())
