"""A text in overlapping windows of words, each with the title in front."""

from __future__ import annotations

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


def segments(text: str, title: str, windowing: Windowing) -> list[str]:
    """The windows of `text`; one that fits in a window stays as it is, without the title.

    In a longer one, words are joined by single spaces and the title goes before each window.
    """
    words = text.split()
    if len(words) < FEWEST_WORDS:
        return []
    if len(words) <= windowing.size:
        return [text]
    return [f"{title} {' '.join(words[at : at + windowing.size])}" for at in windowing.starts(len(words))]


def titled_segments(text: str, title: str, windowing: Windowing) -> list[str]:
    """As `segments`, with the title before a text that fits in one window too: its line breaks stay."""
    found = segments(text, title, windowing)
    return [f"{title} {text}"] if len(found) == 1 else found
