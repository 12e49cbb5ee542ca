"""What of each published set is there, what is missing or corrupt, and what brings it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from r1_router.benchmarks import Benchmark
from r1_router.datasets.links import DEAD_LINKS, dead_links
from r1_router.datasets.pictures import pictures_of
from r1_router.datasets.places import BASE_URL, State, pictures_folder, questions_file, questions_state
from r1_router.datasets.sources import PICTURE_SOURCES

NAMED = 5
"""Pictures named in a line; the rest is counted."""


@dataclass(frozen=True, slots=True)
class SetReport:
    """One set as it lies on the disk; `pictures` is empty where none are needed, or the questions cannot be read."""

    benchmark: Benchmark
    path: Path
    questions: State
    pictures: Mapping[str, State] = field(default_factory=dict)
    dead: int = 0

    @property
    def sound(self) -> bool:
        """Whether questions are there and nothing is corrupt; pictures may be missing, for dead links stay dead."""
        return self.questions is State.PRESENT and State.CORRUPT not in self.pictures.values()

    def lines(self) -> Iterator[str]:
        """What to print: the states, then a line for each thing that is not there, with what brings it."""
        name = self.benchmark.name
        yield f"{name:16} questions {self.questions}; pictures {self._pictures()}"
        if self.questions is not State.PRESENT:
            yield f"    {self.path}: `r1-router datasets fetch {name}` brings {BASE_URL}/{self.benchmark.file}"
        for state in (State.CORRUPT, State.MISSING):
            if found := [picture for picture, one in self.pictures.items() if one is state]:
                more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
                yield f"    {state}: {', '.join(found[:NAMED])}{more} in {self._folder}"
        if any(state is not State.PRESENT for state in self.pictures.values()):
            yield f"    `r1-router datasets images {name} --from PATH` brings them; PATH is"
            yield f"    {PICTURE_SOURCES[name].expects}"
        if self.dead:
            yield f"    {self.dead} addresses were dead at the last try: {self._folder / DEAD_LINKS} lists them"

    @property
    def _folder(self) -> Path:
        return pictures_folder(self.path.parent, self.benchmark)

    def _pictures(self) -> str:
        if self.benchmark.image is None:
            return "none needed"
        if not self.pictures:
            return "not counted: the questions name them"
        counts = Counter(self.pictures.values())
        others = [f", {counts[state]} {state}" for state in (State.MISSING, State.CORRUPT) if counts[state]]
        return f"{counts[State.PRESENT]} of {len(self.pictures)} present{''.join(others)}"


def check_set(root: Path, benchmark: Benchmark) -> SetReport:
    """Look at every byte of the question file and at the start of every picture."""
    path = questions_file(root, benchmark)
    state = questions_state(path, benchmark)
    if state is not State.PRESENT or benchmark.image is None:
        return SetReport(benchmark, path, state)
    pictures = pictures_of(path, benchmark)
    return SetReport(benchmark, path, state, pictures.states(), len(dead_links(pictures)))
