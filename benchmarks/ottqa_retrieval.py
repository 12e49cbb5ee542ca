"""The tables, introductions and flags of the OTT-QA world, each searched in several ways."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from linked_passages import LinkedPassages
from numpy.typing import NDArray
from ottqa_reranker import reranked, reranker
from searched_worlds import Halves, OttQa, halves, known_pages, read_ottqa, table_text, table_title

from r1_router.retrieval.encoders import SentenceEncoder
from r1_router.retrieval.images import EfficientNetEncoder
from r1_router.retrieval.lexical import build_lexical, lexical_text
from r1_router.retrieval.vectors import PassageEncoder
from r1_router.retrieval_quality import GoldQuery
from r1_router.training.table_retriever import RetrieverConfig, train
from r1_router.training.table_retriever_data import Material, gold_rows, rows_by_id
from r1_router.types import IMAGE, TABLE, TEXT, Query

Scores = NDArray[np.float32]
ENCODER = Path("models/all-MiniLM-L6-v2")
PICTURES = Path("models/efficientnet-lite0")
MAX_TOKENS = 192
LEXICAL_WEIGHT = 0.3
"""BM25's share in tables and introductions; chosen on the learning half."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One way of searching one base: the first gold passage's place for each question, None where it is far down."""

    questions: str
    base: str
    way: str
    places: Sequence[int | None]


@dataclass(frozen=True, slots=True)
class Base:
    """A base's passages by id, their titles, and where its vectors are kept."""

    name: str
    texts: Mapping[str, str]
    titles: Sequence[str]
    cache: Path

    def dense(self, queries: Sequence[str], encoder: PassageEncoder) -> Scores:
        """Cosines, shape (queries, passages); the passages' vectors are kept by what the encoder is."""
        path = self.cache / f"{self.name}_{encoder.settings['weights']}.npy"
        if not path.is_file():
            path.parent.mkdir(parents=True, exist_ok=True)
            np.save(path, encoder.encode_passages([Query(text) for text in self.texts.values()]))
        return encoder.encode([Query(text) for text in queries]) @ np.load(path).T

    def lexical(self, queries: Sequence[str], language: str | None) -> Scores:
        """BM25 as the library has it, titles weighted, over each query's best score; shape (queries, passages)."""
        index = build_lexical(map(lexical_text, self.titles, self.texts.values()), language)
        scores = np.stack([index.scores(query) for query in queries])
        return scores / np.maximum(scores.max(axis=1, keepdims=True), 1e-9)


def fused(dense: Scores, lexical: Scores) -> Scores:
    """As `lexical_weight` fuses them, over all passages."""
    return (1 - LEXICAL_WEIGHT) * dense + LEXICAL_WEIGHT * lexical


def measure_ottqa(world: Path, output: Path, *, tune: bool, rerank: bool) -> Iterator[Measured]:
    """All bases; `tune` trains a table retriever, and `rerank` a cross-encoder, where `output` has none yet."""
    ottqa = read_ottqa(world)
    parts = halves(ottqa)
    untuned = SentenceEncoder(ENCODER, max_tokens=MAX_TOKENS)
    tables = table_base(ottqa, output)
    asked = ottqa.asked(TABLE.name)
    tuned = tuned_encoder(ottqa, parts, tables, output) if tune else None
    yield from measure_tables(tables, asked, parts, untuned, tuned)
    if rerank:
        yield from measure_reranked(tables, asked, parts, untuned, tuned, output / "reranker")
    yield from measure_introductions(ottqa, tables, parts, untuned, tuned, output)
    yield from measure_flags(ottqa)


def table_base(world: OttQa, cache: Path) -> Base:
    """The tables, whole."""
    texts = {table["id"]: table_text(table) for table in world.tables}
    return Base("tables", texts, [table_title(table) for table in world.tables], cache)


def tuned_encoder(world: OttQa, parts: Halves, tables: Base, output: Path) -> SentenceEncoder:
    """The encoder trained on the learning half's questions; a finished one is taken as it is."""
    asked = world.asked(TABLE.name)
    config = RetrieverConfig(
        str(ENCODER), output / "tuned", learning_rate=5e-5, max_tokens=MAX_TOKENS, evaluate_steps=35
    )
    learnt, watched = ([one for one in asked if one.question in ids] for ids in (parts.train, parts.watched))
    train(config, Material(learnt, watched, tables.texts), print)
    return SentenceEncoder(config.output, max_tokens=MAX_TOKENS)


def measure_tables(
    base: Base, asked: Sequence[GoldQuery], parts: Halves, untuned: SentenceEncoder, tuned: SentenceEncoder | None
) -> Iterator[Measured]:
    """Everything on all questions and on the test half; the tuned encoder on the test half."""
    queries = [one.query.text for one in asked]
    lexical = base.lexical(queries, "english")
    ways = {
        "BM25": base.lexical(queries, None),
        "BM25, stems": lexical,
        "vectors": (dense := base.dense(queries, untuned)),
        "vectors and BM25, stems": fused(dense, lexical),
    }
    test = [row for row, one in enumerate(asked) if one.question in parts.test]
    judged = [asked[row] for row in test]
    for way, scores in ways.items():
        yield Measured("all", base.name, way, places(base, asked, scores))
    for way, scores in ways.items():
        yield Measured("test half", base.name, way, places(base, judged, scores[test]))
    if tuned is not None:
        dense = base.dense([one.query.text for one in judged], tuned)
        yield Measured("test half", base.name, "tuned vectors", places(base, judged, dense))
        both = fused(dense, lexical[test])
        yield Measured("test half", base.name, "tuned vectors and BM25, stems", places(base, judged, both))


def measure_reranked(
    base: Base,
    asked: Sequence[GoldQuery],
    parts: Halves,
    untuned: SentenceEncoder,
    tuned: SentenceEncoder | None,
    folder: Path,
) -> Iterator[Measured]:
    """The test half's first tables, by untuned and by tuned vectors, in a cross-encoder's order."""
    texts, rows = list(base.texts.values()), rows_by_id(base.texts)
    learnt = [one for one in asked if one.question in parts.train]
    judged = [one for one in asked if one.question in parts.test]
    words = [one.query.text for one in learnt]
    found = fused(base.dense(words, untuned), base.lexical(words, "english"))
    scorer = reranker(ENCODER, folder, words, found, [set(gold_rows(one, rows)) for one in learnt], texts)
    words = [one.query.text for one in judged]
    lexical = base.lexical(words, "english")
    for name, encoder in (("vectors", untuned), ("tuned vectors", tuned)):
        if encoder is not None:
            scores = reranked(scorer, words, fused(base.dense(words, encoder), lexical), texts)
            yield Measured("test half", base.name, f"{name} and BM25, stems, reranked", places(base, judged, scores))


def measure_introductions(
    world: OttQa,
    tables: Base,
    parts: Halves,
    untuned: SentenceEncoder,
    tuned: SentenceEncoder | None,
    cache: Path,
) -> Iterator[Measured]:
    """Alone, through the tables found, through those of the page where its title is known, and by tuned tables."""
    texts = {row["id"]: row["text"] for row in world.introductions}
    base = Base("introductions", texts, [row["title"] for row in world.introductions], cache)
    asked = world.asked(TEXT.name)
    queries = [one.query.text for one in asked]
    lexical, dense = base.lexical(queries, "english"), base.dense(queries, untuned)
    scores = fused(dense, lexical)
    by_words = tables.lexical(queries, "english")
    found = fused(tables.dense(queries, untuned), by_words)
    linked = LinkedPassages(world.tables, world.introductions)
    pages = known_pages(world)
    of_page = [
        [at for at, table in enumerate(world.tables) if table["page_title"] == pages[one.question]] for one in asked
    ]
    through = _each(linked, queries, scores, found, None)
    ways = {
        "BM25": base.lexical(queries, None),
        "BM25, stems": lexical,
        "vectors": dense,
        "vectors and BM25, stems": scores,
        "through the tables found": through,
        "through the page's tables, its title known": _each(linked, queries, scores, found, of_page),
    }
    for way, one in ways.items():
        yield Measured("all", base.name, way, places(base, asked, one))
    test = [row for row, one in enumerate(asked) if one.question in parts.test]
    judged = [asked[row] for row in test]
    for way in list(ways)[-3:]:
        yield Measured("test half", base.name, way, places(base, judged, ways[way][test]))
    if tuned is not None:
        words = [queries[row] for row in test]
        better = _each(linked, words, scores[test], fused(tables.dense(words, tuned), by_words[test]), None)
        yield Measured(
            "test half", base.name, "through the tables found by tuned vectors", places(base, judged, better)
        )


def measure_flags(world: OttQa) -> Iterator[Measured]:
    """Distorted pictures of flags, sought among all flags and photographs by network and colour grid."""
    encoder = EfficientNetEncoder(PICTURES)
    stored = encoder.encode_passages([Query("", str(world.folder / row["image"])) for row in world.pictures])
    base = Base("pictures", {row["id"]: row["text"] for row in world.pictures}, (), Path())
    asked = world.asked(IMAGE.name, masked=True)
    pictures = encoder.encode([Query("", str(world.folder / str(one.query.image))) for one in asked])
    yield Measured("all", base.name, "network and colour grid", places(base, asked, pictures @ stored.T))


def places(base: Base, asked: Sequence[GoldQuery], scores: Scores) -> list[int | None]:
    """The place of each question's best gold passage, from 1; of equal scores the earlier passage is first."""
    rows = rows_by_id(base.texts)
    return [_place(list(gold_rows(one, rows)), found) for one, found in zip(asked, scores, strict=True)]


def _place(gold: Sequence[int], scores: Scores) -> int:
    best = min(gold, key=lambda row: (-scores[row], row))
    return 1 + int((scores > scores[best]).sum()) + int((scores[:best] == scores[best]).sum())


def _each(
    linked: LinkedPassages,
    queries: Sequence[str],
    scores: Scores,
    found: Scores,
    tables: Sequence[Sequence[int] | None] | None,
) -> Scores:
    known = [None] * len(queries) if tables is None else tables
    return np.stack([linked.raised(*one) for one in zip(queries, scores, found, known, strict=True)])
