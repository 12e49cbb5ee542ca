"""Pictures of step rows: named where they are, or brought beside the rows as copies or hard links."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from r1_router.errors import DataError
from r1_router.files import write_atomically

REFER, COPY, LINK = "refer", "copy", "link"
IMAGES = "images"
"""The folder beside the rows that pictures are brought to."""


def placed(images: Iterable[str], folder: Path, how: str, *, within: str = IMAGES) -> dict[str, str]:
    """Each picture's path from `folder`, after it was brought to `within` in there if `how` says so.

    A picture keeps its name, by which leaks are found; a second one of a name goes into a folder of its own. Raises
    DataError for a picture that cannot be brought.
    """
    distinct = list(dict.fromkeys(images))
    if how == REFER:
        return {image: os.path.relpath(Path(image).resolve(), folder.resolve()) for image in distinct}
    seen: Counter[str] = Counter()
    targets = {}
    for image in distinct:
        name = Path(image).name
        seen[name] += 1
        targets[image] = Path(within, *([str(seen[name])] if seen[name] > 1 else []), name)
        try:
            BRING[how](Path(image), folder / targets[image])
        except OSError as error:
            mend = "`images: refer` leaves pictures where they are"
            raise DataError(f"images: {image} cannot be brought to {folder} ({error}); {mend}.") from error
    return {image: target.as_posix() for image, target in targets.items()}


def _copy(picture: Path, target: Path) -> None:
    write_atomically(target, picture.read_bytes())


def _link(picture: Path, target: Path) -> None:
    if target.exists() and target.samefile(picture):
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    os.link(picture.resolve(), part)
    os.replace(part, target)


BRING: dict[str, Callable[[Path, Path], None]] = {COPY: _copy, LINK: _link}
"""How a picture is brought, by what the config says."""
