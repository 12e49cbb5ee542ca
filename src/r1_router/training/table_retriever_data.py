"""What a table retriever learns from: questions, each with a gold passage and passages that only look like one."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from r1_router.errors import DataError
from r1_router.retrieval.lexical import build_lexical
from r1_router.retrieval_quality import GoldQuery, whole_of


@dataclass(frozen=True, slots=True)
class Material:
    """Gold queries to learn from and others to watch by, and the base's passages by id."""

    train: Sequence[GoldQuery]
    held_out: Sequence[GoldQuery]
    passages: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Example:
    """One question with the passage it should come nearest to, and those it should not."""

    question: str
    passage: str
    negatives: tuple[str, ...]


def make_examples(material: Material, negatives: int, mined_from: int, seed: int) -> list[Example]:
    """An example a gold query: of several gold passages the one that BM25 ranks first, and mined hard negatives.

    Those are drawn by `seed` from the first `mined_from` passages by BM25 that are not gold. Words find them, not the
    model, so that a model that knows nothing yet gets hard ones too. Raises DataError where no gold passage is known.
    """
    texts = list(material.passages.values())
    rows = rows_by_id(material.passages)
    lexical = build_lexical(texts)
    generator = random.Random(seed)
    examples = []
    for asked in material.train:
        gold = gold_rows(asked, rows)
        scores = lexical.scores(asked.query.text)
        depth = min(mined_from + len(gold), len(texts))
        first = np.argpartition(-scores, depth - 1)[:depth]
        near = [row for row in sorted(first.tolist(), key=lambda row: (-scores[row], row)) if row not in gold]
        drawn = generator.sample(near[:mined_from], min(negatives, len(near)))
        positive = max(sorted(gold), key=scores.__getitem__)
        examples.append(Example(asked.query.text, texts[positive], tuple(texts[row] for row in drawn)))
    return examples


def watched_passages(material: Material, most: int, seed: int) -> dict[str, str]:
    """The passages that held-out questions are watched among: their gold ones, and others drawn up to `most`."""
    ids = list(material.passages)
    rows = rows_by_id(material.passages)
    kept = {row for asked in material.held_out for row in gold_rows(asked, rows)}
    others = [row for row in range(len(ids)) if row not in kept]
    kept |= set(random.Random(seed).sample(others, min(max(0, most - len(kept)), len(others))))
    return {ids[row]: material.passages[ids[row]] for row in sorted(kept)}


def rows_by_id(passages: Mapping[str, str]) -> dict[str, list[int]]:
    """The rows of each id, and of each passage that was cut into parts."""
    rows: dict[str, list[int]] = defaultdict(list)
    for row, id_ in enumerate(passages):
        rows[id_].append(row)
        if whole := whole_of(id_):
            rows[whole].append(row)
    return rows


def gold_rows(asked: GoldQuery, rows: Mapping[str, Sequence[int]]) -> set[int]:
    """The rows of a query's gold passages; raises DataError where the base has none of them."""
    found = {row for id_ in asked.gold for row in rows.get(id_, ())}
    if not found:
        raise DataError(
            f"question {asked.question}: no passage of the {asked.source} has its gold ids {sorted(asked.gold)}. "
            "Give the questions that belong to the config's passages."
        )
    return found
