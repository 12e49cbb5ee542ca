"""Passages through tables: an introduction named in a row of a likely table, when row and passage together fit.

Half of the words of a question are about the row and half about the passage that the row names, so that a passage alone
seldom matches. Here a passage's score is raised by the best row that names it, among those of the question's first
tables: by the table's own score, and by the share of the question's words that title, row and passage cover together.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from searched_worlds import introduction_text, table_title

from r1_router.retrieval.lexical import build_lexical, word_reader, words

Floats = NDArray[np.float32]
Rows = NDArray[np.int64]
LONGEST_NAME = 8  # words
TABLES = 2  # of a question, whose rows are looked at
TABLE_WEIGHT, COVERAGE_WEIGHT = 0.5, 6.0  # like TABLES chosen on the learning half
BRACKETS = re.compile(r"\s*\([^()]*\)$")


class LinkedPassages:
    """The names of passages in the rows of tables; scores are raised by them."""

    def __init__(self, tables: Sequence[Mapping[str, Any]], passages: Sequence[Mapping[str, Any]]) -> None:
        self._links = list(_links(tables, passages))
        heads = [f"{table_title(table)} {' '.join(table['header'])}" for table in tables]
        rows = [" ".join(row) for table in tables for row in table["rows"]]
        self._passages, self._heads = len(passages), len(passages) + np.arange(len(tables))
        counts = [len(table["rows"]) for table in tables]
        self._first_row = len(passages) + len(tables) + np.cumsum([0, *counts[:-1]])
        texts = [*map(introduction_text, passages), *heads, *rows]
        self._index = build_lexical(texts, "english")  # one collection: a word weighs the same in all three
        self._read = word_reader("english")

    def raised(
        self, question: str, scores: Floats, table_scores: Floats, tables: Sequence[int] | None = None
    ) -> Floats:
        """The passages' scores for one question, raised by the rows of `tables`, by default the first by score."""
        words_ = [self._index.scores(word) for word in sorted(set(words(question))) if self._read(word)]
        weights = np.stack([one for one in words_ if one.any()] or [np.zeros(self._index.rows, dtype=np.float32)])
        most = max(float(weights.max(axis=1).sum()), 1e-9)
        raised = scores.copy()
        bonus = np.zeros_like(scores)
        for table in np.argsort(-table_scores)[:TABLES] if tables is None else tables:
            rows, passages = self._links[table]
            parts = (passages, self._first_row[table] + rows, np.full_like(rows, self._heads[table]))
            covered = np.maximum.reduce([weights[:, part] for part in parts]).sum(axis=0) / most
            np.maximum.at(bonus, passages, TABLE_WEIGHT * table_scores[table] + COVERAGE_WEIGHT * covered)
        return raised + bonus


def _links(tables: Sequence[Mapping[str, Any]], passages: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Rows, Rows]]:
    """For each table its rows and the passages that they name, pair by pair."""
    named = _names(passages)
    for table in tables:
        pairs = sorted(
            {(row, at) for row, cells in enumerate(table["rows"]) for cell in cells for at in _named_in(cell, named)}
        )
        rows, found = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
        yield rows, found


def _names(passages: Sequence[Mapping[str, Any]]) -> dict[str, set[int]]:
    """Passages by what a cell may call them: title, link names, both without brackets, the title before its comma."""
    named: dict[str, set[int]] = defaultdict(set)
    for at, passage in enumerate(passages):
        link = passage["id"].removeprefix("wiki/").replace("_", " ")
        names = [passage["title"], link, *passage.get("aliases", ()), passage["title"].partition(",")[0]]
        for name in (*names, *(BRACKETS.sub("", name) for name in names)):
            named[" ".join(words(name))].add(at)
    named.pop("", None)
    return named


def _named_in(cell: str, named: Mapping[str, set[int]]) -> set[int]:
    """The passages named in a cell: from left to right the longest name at each place; a number among words is none."""
    found: set[int] = set()
    rest = words(cell)
    alone = len(rest) == 1
    while rest:
        spans = (rest[:count] for count in range(min(LONGEST_NAME, len(rest)), 0, -1))
        names = ((span, " ".join(span)) for span in spans)
        taken = next(((s, n) for s, n in names if n in named and (alone or len(s) > 1 or not n.isdecimal())), None)
        if taken:
            found |= named[taken[1]]
        rest = rest[len(taken[0]) if taken else 1 :]
    return found
