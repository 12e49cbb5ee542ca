"""Hit rates of the knowledge bases on gold sub-questions: the counting, and the command on a tiny world."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from r1_router import jsonl
from r1_router.cli import app
from r1_router.errors import ConfigError, DataError
from r1_router.retrieval_quality import GoldQuery, Outcome, ask_bases, gold_queries, hits, read_depths
from r1_router.types import IMAGE, TABLE, TEXT, Passage, Query, Question
from tiny_models import save_tiny_encoder


def question(*hops: dict[str, Any], image: str | None = None) -> Question:
    return Question("q", "the whole question?", ["a"], image=image, extra={"hops": list(hops)})


def outcome(gold: str, *found: str) -> Outcome:
    passages = tuple(Passage(id_, "text", 1.0, TABLE) for id_ in found)
    return Outcome(GoldQuery("q", TABLE.name, Query("?"), frozenset({gold})), passages)


def test_a_hop_is_asked_by_its_sub_question_or_else_by_the_question() -> None:
    text = {"source": TEXT.name, "query": "the sub-question?", "gold_ids": ["t"]}
    asked = gold_queries([question({"kb": "image", "gold_ids": ["i"]}, text, image="flag.png")])
    assert [(one.source, one.query) for one in asked] == [
        (IMAGE.name, Query("the whole question?", "flag.png")),
        (TEXT.name, Query("the sub-question?")),
    ]


def test_hops_without_known_passages_and_stops_are_not_asked() -> None:
    assert gold_queries([question({"kb": "text"}, {"source": "none", "query": "none"})]) == []


def test_a_part_of_a_gold_passage_counts_as_the_passage() -> None:
    assert outcome("Page_0", "Page_1#0", "Page_0#2", "Page_0").place == 2
    assert outcome("Page_0", "Page_0_1", "Other_0#1").place is None


def test_hits_are_shares_of_the_queries_by_depth_and_a_failed_search_is_a_miss() -> None:
    failed = Outcome(outcome("a").asked, (), "no picture")
    shares = hits([outcome("a", "a"), outcome("a", "b", "a"), outcome("a", "b", "c"), failed], (1, 2))
    assert {k: one.mean for k, one in shares.items()} == {1: 0.25, 2: 0.5}
    assert shares[2].low < 0.5 < shares[2].high


class Shelf:
    """A base that finds the passage named by the query, and refuses one query."""

    async def search(self, query: Query, k: int) -> list[Passage]:
        if query.text == "broken":
            raise DataError("no picture")
        return [Passage(query.text, "text", 1.0, TABLE)][:k]


def test_a_query_that_cannot_be_searched_leaves_the_others() -> None:
    hops = [{"source": TABLE.name, "query": query, "gold_ids": ["a"]} for query in ("a", "broken")]
    found = ask_bases({TABLE: Shelf()}, [question(*hops)], 5)[TABLE.name]
    assert [(one.place, one.error) for one in found] == [(1, None), (None, "no picture")]


def test_bases_that_do_not_exist_or_were_never_asked_are_errors() -> None:
    with pytest.raises(ConfigError, match="there are table retriever"):
        ask_bases({TABLE: Shelf()}, [question()], 5, ["tables"])
    with pytest.raises(DataError, match="gold_ids"):
        ask_bases({TABLE: Shelf()}, [question()], 5)


@pytest.mark.parametrize("bad", ["", "0", "1,x", "-1", "1,,5"])
def test_depths_are_whole_numbers_from_one(bad: str) -> None:
    assert read_depths("10, 1,5,5") == (1, 5, 10)
    with pytest.raises(ConfigError, match="--k"):
        read_depths(bad)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table base of four passages that BM25 tells apart, by stems, and three questions of which two have hops."""
    root = tmp_path_factory.mktemp("world")
    save_tiny_encoder(root / "encoder")
    words = ("stadium", "river", "mountain", "island")
    jsonl.rewrite(root / "table.jsonl", [{"id": word, "title": word, "text": f"the {word}"} for word in words])
    hops = [[{"kb": "table", "gold_ids": ["river"]}], [{"kb": "table", "gold_ids": ["island"]}], []]
    asked = zip(("which rivers?", "which stadiums?", "which?"), hops, strict=True)
    rows = [{"id": f"q{n}", "question": text, "answers": ["a"], "hops": gold} for n, (text, gold) in enumerate(asked)]
    jsonl.rewrite(root / "questions.jsonl", rows)
    source = {"name": TABLE.name, "tag": "tar", "purpose": "tables", "encoder": "text", "lexical_weight": 0.999}
    config: dict[str, Any] = {
        "llm": {"name": "tiny", "model": "none"},
        "encoders": {"text": {"kind": "sentence", "model": "encoder"}},
        "sources": [{**source, "passages": "table.jsonl", "folder": "indexes/table", "language": "english"}],
        "benchmarks": {"toy": "questions.jsonl"},
    }
    (root / "config.yaml").write_text(yaml.safe_dump(config))
    assert CliRunner().invoke(app, ["build", "--config", str(root / "config.yaml")]).exit_code == 0
    return root


def test_the_command_prints_shares_with_intervals_and_writes_every_search(world: Path) -> None:
    words = ["eval-retrieval", "--questions", "toy", "--k", "1,4", "--config", str(world / "config.yaml")]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    for shown in ("table retriever", "hit@4", "0.500", "1.000"):
        assert shown in result.stdout
    rows = list(jsonl.read(world / "results/retrieval/config_toy.jsonl"))
    assert (rows[0]["question"], rows[0]["place"]) == ("q0", 1)  # found by its stem
    assert rows[1]["found"][0]["id"] == "stadium" and rows[1]["gold_ids"] == ["island"]
    made = json.loads((world / "indexes/table/manifest.json").read_text())
    assert made["inputs"]["lexical"]["language"] == "english"


def test_a_language_that_bm25_cannot_stem_is_an_error() -> None:
    from r1_router.retrieval.lexical import word_reader

    assert word_reader("english")("Which of the stadiums are São's?") == ["stadium", "sao"]
    with pytest.raises(ConfigError, match="klingon"):
        word_reader("klingon")
