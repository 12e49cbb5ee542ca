"""Where the published sets are: on the network, and on this disk.

datasets/published/infoseek_val.jsonl                  a question file, as published
datasets/published/images/infoseek/oven_04990048.jpg   a picture of it, named as the registry says
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path

from r1_router import jsonl
from r1_router.benchmarks import PUBLISHED, Benchmark
from r1_router.errors import ConfigError, DataError
from r1_router.files import sha256_of

PUBLISHED_ROOT = Path("datasets/published")
BASE_URL = "https://github.com/OpenBMB/R1-Router/raw/c0a0c1b/datasets"
BASE_URL_VARIABLE = "R1_ROUTER_DATASETS_URL"
"""The environment variable that names a mirror: a folder on the network that holds the six question files."""

Progress = Callable[[int, int], None]
"""Called with what is done and what there is to do."""


def quiet(done: int, total: int) -> None:
    """The progress callback that shows nothing."""


class State(StrEnum):
    """What stands in a file's place."""

    PRESENT = "present"
    MISSING = "missing"
    CORRUPT = "corrupt"


def questions_file(root: Path, benchmark: Benchmark) -> Path:
    """The set's question file under the data root."""
    return root / benchmark.file


def pictures_folder(root: Path, benchmark: Benchmark) -> Path:
    """The folder that the set's picture paths start from."""
    return root / "images" / benchmark.name


def questions_state(path: Path, benchmark: Benchmark) -> State:
    """Whether `path` is the published question file, byte for byte."""
    if not path.is_file():
        return State.MISSING
    return State.PRESENT if sha256_of(path) == benchmark.sha256 else State.CORRUPT


def read_rows(path: Path, benchmark: Benchmark) -> list[jsonl.Record]:
    """The rows of the published question file; raises DataError unless it is there and sound."""
    state = questions_state(path, benchmark)
    if state is not State.PRESENT:
        raise DataError(
            f"{benchmark.name}: the published question file {path} is {state}; "
            f"`r1-router datasets fetch {benchmark.name}` brings it."
        )
    return list(jsonl.read(path))


def published_sets(names: list[str] | None) -> list[Benchmark]:
    """The published sets of these names, all six where none is named; raises ConfigError for an unknown one."""
    if unknown := [name for name in names or () if name not in PUBLISHED]:
        raise ConfigError(f"datasets: no published set is named {unknown[0]!r}; there are {', '.join(PUBLISHED)}.")
    return [PUBLISHED[name] for name in dict.fromkeys(names or PUBLISHED)]
