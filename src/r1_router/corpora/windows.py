"""A text in overlapping windows of words, each with the title in front."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from r1_router.errors import ConfigError

FEWEST_WORDS = 6
"""A text of fewer words gives no window at all, as in the reference."""


@dataclass(frozen=True, slots=True)
class Windowing:
    """How many words a window has, and how many words after it the next one begins.

    `duplicate_last` is the reference's test for words left over at the end: it asks whether `size` divides the length,
    where `stride` is meant. With the published 100 and 50 it repeats the last window of every text whose length modulo
    100 is 50. Off by default: the second copy takes a place among the passages found and tells nothing new.
    """

    size: int = 100
    stride: int = 50
    duplicate_last: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.stride <= self.size:
            raise ConfigError(
                f"Windows of {self.size} words, {self.stride} apart, would leave words out: give a stride from 1 to "
                f"the window's size."
            )

    def starts(self, words: int) -> list[int]:
        """Where the windows of a text longer than one window begin, counted in words from 0; the last ends with it."""
        starts = list(range(0, words - self.size + 1, self.stride))
        left_over = words % self.size if self.duplicate_last else (words - self.size) % self.stride
        return [*starts, words - self.size] if left_over else starts

    def windows(self, words: Sequence[str], written: Callable[[str], str] = str) -> list[str]:
        """The windows of a text longer than one, single spaces between their words.

        `written` may put something else for each character. Words that stand in several windows are joined and written
        once, which halves the time at the published stride.
        """
        starts = self.starts(len(words))
        if self.size % self.stride:
            return [written(" ".join(words[at : at + self.size])) for at in starts]
        strides = [written(" ".join(words[at : at + self.stride])) for at in range(0, len(words), self.stride)]
        each = self.size // self.stride
        whole = [at // self.stride for at in starts if at % self.stride == 0]
        found = [" ".join(strides[at : at + each]) for at in whole]
        return found if len(found) == len(starts) else [*found, written(" ".join(words[-self.size :]))]


def segments(text: str, title: str, windowing: Windowing, written: Callable[[str], str] = str) -> list[str]:
    """The windows of `text`; one that fits in a window stays as it is, without the title.

    In a longer one, words are joined by single spaces and the title goes before each window. `written` is as for
    `Windowing.windows`.
    """
    words = text.split()
    if len(words) < FEWEST_WORDS:
        return []
    if len(words) <= windowing.size:
        return [written(text)]
    title = written(title)
    return [f"{title} {window}" for window in windowing.windows(words, written)]


def titled_segments(text: str, title: str, windowing: Windowing, written: Callable[[str], str] = str) -> list[str]:
    """As `segments`, with the title before a text that fits in one window too: its line breaks stay."""
    found = segments(text, title, windowing, written)
    return [f"{written(title)} {found[0]}"] if len(found) == 1 else found
