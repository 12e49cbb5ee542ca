"""The worlds that `benchmarks/retrieval.py` asks: OTT-QA's tables, introductions and flags, and how they are halved."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from r1_router.questions import QuestionFile, read_questions
from r1_router.retrieval_quality import GoldQuery, gold_queries
from r1_router.types import TABLE, Question

INTRO_WORDS = 50
"""Words of a page's introduction that a table's text has; more would push its rows out of the encoder's sight."""
WATCHED_SHARE = 0.1

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class OttQa:
    """The human-written world: raw rows of the three bases, and the questions with their pictures findable."""

    tables: Sequence[Row]
    introductions: Sequence[Row]
    pictures: Sequence[Row]
    questions: Sequence[Question]
    folder: Path

    def asked(self, source: str, *, masked: bool = False) -> list[GoldQuery]:
        """The gold queries of one base; `masked` are the questions whose country is shown by its flag."""
        questions = [question for question in self.questions if bool(question.image) == masked]
        return [asked for asked in gold_queries(questions) if asked.source == source]


@dataclass(frozen=True, slots=True)
class Halves:
    """Question ids, parted by the page of their gold table: to learn from, to watch by, and to judge by."""

    train: frozenset[str]
    watched: frozenset[str]
    test: frozenset[str]


def read_ottqa(world: Path) -> OttQa:
    """Read the world's files."""
    path = world / "questions_dev.jsonl"
    return OttQa(
        tables=list(_rows(world / "kb/tables.jsonl.gz")),
        introductions=list(_rows(world / "kb/text.jsonl.gz")),
        pictures=list(_rows(world / "kb/images.jsonl")),
        questions=read_questions(QuestionFile("ottqa", path, world)),
        folder=world,
    )


def table_title(table: Row) -> str:
    """The page's title and the section's."""
    return " - ".join(filter(None, (table["page_title"], table["section_title"])))


def table_text(table: Row) -> str:
    """Titles and header first, since an encoder cuts the end; then the introduction's start and the rows."""
    intro = " ".join(table["intro"].split()[:INTRO_WORDS])
    rows = "; ".join(", ".join(filter(None, row)) for row in table["rows"])
    return f"{table_title(table)}. {', '.join(table['header'])}. {intro} {rows}"


def introduction_text(passage: Row) -> str:
    """The passage under its title."""
    return f"{passage['title']}. {passage['text']}"


def halves(world: OttQa, seed: int = 0) -> Halves:
    """Half of the pages to learn from, of them a tenth to watch by, and half to test on; no page is in two parts."""
    asked = world.asked(TABLE.name)
    pages = sorted({_page(one) for one in asked})
    random.Random(seed).shuffle(pages)
    learnt = len(pages) // 2
    watched = round(WATCHED_SHARE * learnt)
    parts = (pages[watched:learnt], pages[:watched], pages[learnt:])
    return Halves(*(frozenset(one.question for one in asked if _page(one) in part) for part in parts))


def known_pages(world: OttQa) -> dict[str, str]:
    """The title of the gold table's page, by question."""
    titles = {table["id"]: table["page_title"] for table in world.tables}
    return {one.question: titles[min(one.gold)] for one in gold_queries(world.questions) if one.source == TABLE.name}


def _page(asked: GoldQuery) -> str:
    """The page of a table's id, which is the page's title and the table's number."""
    return min(asked.gold).rpartition("_")[0]


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    yield from map(json.loads, data.splitlines())
