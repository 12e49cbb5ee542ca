"""Windows of words: the reference's own, and the one that it repeats left out."""

from __future__ import annotations

import pytest

from r1_router.corpora.windows import Windowing, segments
from r1_router.errors import ConfigError
from test_corpora import golden, needs_golden, words


@needs_golden
def test_every_window_is_the_references() -> None:
    rows = golden("window")
    assert len(rows) > 20
    for row in rows:
        found = segments(words(1, row["text_words"]), row["title"], Windowing(row["window"], row["step"], True))
        expected = [
            f"{row['title']} {words(start, start + length - 1)}" if titled else words(start, start + length - 1)
            for start, length, titled in zip(row["starts"], row["lengths"], row["title_prefixed"], strict=True)
        ]
        assert found == expected, row["text_words"]


@needs_golden
def test_every_full_text_is_cut_as_the_reference_cuts_it() -> None:
    rows = golden("window_full")
    assert len(rows) > 10
    for row in rows:
        assert segments(row["text"], row["title"], Windowing(row["window"], row["step"], True)) == row["segments"]


@needs_golden
def test_without_the_option_only_the_repeated_last_window_goes() -> None:
    repeats = 0
    for row in golden("window_full"):
        expected = row["segments"][:-1] if row["last_equals_previous"] else row["segments"]
        assert segments(row["text"], row["title"], Windowing(row["window"], row["step"])) == expected
        repeats += row["last_equals_previous"]
    assert repeats > 0


@pytest.mark.parametrize(("size", "stride"), [(100, 50), (6, 4), (7, 7), (5, 1)])
def test_every_word_is_in_a_window_and_no_window_comes_twice(size: int, stride: int) -> None:
    for length in range(size + 1, 4 * size):
        starts = Windowing(size, stride).starts(length)
        assert {word for start in starts for word in range(start, start + size)} == set(range(length))
        assert len(set(starts)) == len(starts) and all(0 <= start <= length - size for start in starts)


@pytest.mark.parametrize(("size", "stride"), [(100, 0), (100, 101), (0, 0)])
def test_windows_that_leave_words_out_are_refused(size: int, stride: int) -> None:
    with pytest.raises(ConfigError, match="stride"):
        Windowing(size, stride)
