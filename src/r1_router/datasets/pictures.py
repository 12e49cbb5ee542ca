"""The pictures that a set's questions need: which they are, whether they are there, how one is kept."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from r1_router.benchmarks import Benchmark
from r1_router.datasets.places import State, pictures_folder, read_rows
from r1_router.errors import DataError
from r1_router.files import write_atomically
from r1_router.pictures import is_picture

MAX_BYTES = 50_000_000
"""A larger file is no question's picture."""
_HEAD = 12


@dataclass(frozen=True, slots=True)
class Pictures:
    """What a set needs; `asked` holds each row's question with its picture's path from `folder`, in row order."""

    folder: Path
    asked: tuple[tuple[str, str], ...]

    def states(self) -> dict[str, State]:
        """Every needed picture, each once, and what stands in its place."""
        return {picture: self._state(picture) for picture in dict.fromkeys(picture for _, picture in self.asked)}

    def wanted(self) -> dict[str, str]:
        """The pictures still to bring, by the name that their source knows them by: the file's without its ending."""
        return {
            PurePosixPath(picture).stem: picture
            for picture, state in self.states().items()
            if state is not State.PRESENT
        }

    def keep(self, picture: str, data: bytes) -> str | None:
        """Write one picture as it came; gives what is wrong with the bytes where they are none."""
        if len(data) > MAX_BYTES:
            return f"more than {MAX_BYTES:,} bytes"
        if not is_picture(data):
            return f"no picture: it starts with {data[:_HEAD]!r}"
        try:
            write_atomically(self.folder / picture, data)
        except OSError as error:
            raise DataError(f"{self.folder / picture}: cannot be written ({error}).") from error
        return None

    def _state(self, picture: str) -> State:
        try:
            with open(self.folder / picture, "rb") as file:
                return State.PRESENT if is_picture(file.read(_HEAD)) else State.CORRUPT
        except FileNotFoundError:
            return State.MISSING


def pictures_of(questions: Path, benchmark: Benchmark) -> Pictures:
    """What the set's questions need; raises DataError for a question file that is not there or not sound.

    Raises it too for an id that would lead out of the picture folder.
    """
    rows = read_rows(questions, benchmark)
    asked = tuple((row["question"], picture) for row in rows if (picture := benchmark.image_path(row)))
    return Pictures(pictures_folder(questions.parent, benchmark), asked)
