"""The data card: counts that the published figures confirm, leaks told, nothing taken for markup."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from r1_router import jsonl
from r1_router.errors import DataError
from r1_router.synthesis.card import card_markdown, statistics, write_card
from r1_router.synthesis.leakage import asked_in, leaks, published_questions, read_asked

SHARED = Path(__file__).parents[1].parent / "shared"
STEPS = SHARED / "datasets" / "grpo_dataset_valid_new.jsonl"
SCHEMA = SHARED / "golden" / "step_dataset_schema.json"


def row(
    question: str = "Who is it?", names: Sequence[str] = ("text retriever",), image: str | None = None
) -> dict[str, Any]:
    """A row that asks these retrievers in turn, then gives the final answer."""
    head, steps = f"Origin question: {question}\n", []
    for number, name in enumerate(names, start=1):
        target = {"query": f"sub {number}?", "retriever": [name]}
        steps.append({"step_type": "ret", "problem": head, "system": "route", "answer": target})
        if name != "none":
            steps.append({"step_type": "ans", "problem": f"evidence {number}", "system": "answer", "answer": "so"})
    steps.append({"step_type": "ans", "problem": f"{head}Finally?", "system": "end", "answer": ["so"]})
    return {"images": [image] if image else [], "steps": steps}


def published() -> tuple[list[Any], Any]:
    if not (STEPS.is_file() and SCHEMA.is_file()):
        pytest.skip(f"the published step data ({STEPS.name}) and its schema are not here")
    return list(jsonl.read(STEPS)), json.loads(SCHEMA.read_text())["statistics"]


def test_the_published_file_has_the_published_figures() -> None:
    rows, known = published()
    figures = statistics(rows)
    assert figures["rows"] == known["rows"] and figures["steps"] == known["steps"]
    assert figures["rows_with_image"] == known["rows_with_image"]
    assert figures["sub_questions"] == known["sub_questions_per_row"]
    assert figures["sources"] == {name: n for name, n in known["retriever_targets"].items() if name != "none"}
    assert sum(figures["routes"].values()) == known["rows"]
    lengths = {kind: parts["user text"] for kind, parts in figures["lengths"]["words"].items()}
    words = known["words_in_problem"]
    assert lengths == {
        "route": words["ret"],
        "sub-answer": words["ans_intermediate"],
        "final answer": words["ans_final"],
    }


def test_the_published_file_leaks_as_published() -> None:
    rows, known = published()
    found = statistics(rows, questions=published_questions(STEPS.parent))["leakage"]
    assert len(found) == 6 and None not in found.values()
    assert found["infoseek"]["questions"] == known["origin_questions_also_in_infoseek_val_as_text"]
    assert found["infoseek"]["images"] == known["images_shared_with_infoseek_val"]
    others = [own["questions"] for name, own in found.items() if name != "infoseek"]
    assert sum(others) == known["origin_questions_shared_with_other_evaluation_files"]
    assert all(own["both"] == 0 for own in found.values())


def test_rows_are_counted_by_set_source_and_route() -> None:
    rows = [row(), row("What?", ["table retriever", "none"]), row("Where?", ["text retriever", "table retriever"])]
    figures = statistics(rows, sets=["tables", "texts", "tables"])
    assert figures["sets"]["tables"] == {
        "rows": 2,
        "steps": 8,
        "rows_with_image": 0,
        "sub_questions": {"1": 1, "2": 1},
        "sources": {"text retriever": 2, "table retriever": 1},
    }
    assert figures["sets"]["texts"]["sub_questions"] == {"1": 1}
    assert figures["routes"] == {
        "table retriever, none": 1,
        "text retriever": 1,
        "text retriever, table retriever": 1,
    }
    with pytest.raises(DataError, match="3 rows, 1 sets"):
        statistics(rows, sets=["tables"])


class WordPieces:
    """A tokenizer of two tokens a word."""

    def encode(self, text: str) -> list[int]:
        return [0, 0] * len(text.split())


def test_lengths_in_tokens_are_held_against_the_limits() -> None:
    long = row(" ".join(["word"] * 600))
    lengths = statistics([row(), long], tokenizer=WordPieces())["lengths"]
    assert lengths["tokens"]["route"]["prompt"]["over_the_limit"] == 1
    assert lengths["tokens"]["sub-answer"]["prompt"]["over_the_limit"] == 0
    assert lengths["tokens"]["final answer"]["target"] == {
        "n": 2,
        "min": 2,
        "median": 2,
        "p90": 2,
        "max": 2,
        "mean": 2.0,
        "over_the_limit": 0,
    }
    assert lengths["words"]["route"]["prompt"]["max"] == 603
    assert "tokens" not in statistics([row()])["lengths"]


def test_what_is_there_again_is_counted() -> None:
    rows = [row(), row(image="a.jpg"), row("who is it"), row()]
    found = statistics(rows)["duplicates"]
    assert found == {"prompts": 4, "questions": 2}  # the last row whole, and the third row's sub-answer


def test_leaks_are_told_by_question_by_image_and_by_both() -> None:
    asked = asked_in([("Who is the man?", "pictures/oven_1.jpg"), ("Where is it?", None), ("What?", "2.png")])
    rows = [
        row("who is man"),
        row("Who is the man?", image="/data/oven_1.jpg"),
        row("Who is the man?", image="/data/3.jpg"),
        row("Else?", image="2.jpg"),
        row("Where is it?!"),
    ]
    assert leaks(rows, asked) == {"questions": 4, "images": 2, "both": 2}


def test_question_files_of_ones_own_are_read(tmp_path: Path) -> None:
    jsonl.rewrite(tmp_path / "mine.jsonl", [{"question": "A b?", "image": "x/y.jpg"}, {"question": "C?"}])
    assert read_asked(tmp_path / "mine.jsonl") == {("b", "y"), ("c", "")}
    jsonl.rewrite(tmp_path / "infoseek_val.jsonl", [{"question": "Q?", "image_id": "oven_7", "image": "other"}])
    assert read_asked(tmp_path / "infoseek_val.jsonl") == {("q", "oven_7")}
    jsonl.rewrite(tmp_path / "wrong.jsonl", [{"text": "A?"}])
    with pytest.raises(DataError, match=r"wrong\.jsonl, row 1: .*found text"):
        read_asked(tmp_path / "wrong.jsonl")


def test_a_set_that_is_not_there_is_told_as_not_checked(tmp_path: Path) -> None:
    jsonl.rewrite(tmp_path / "tabfact_val.jsonl", [{"question": "Who is it?"}])
    figures = statistics([row()], questions=published_questions(tmp_path))
    assert figures["leakage"]["tabfact"] == {"questions": 1, "images": 0, "both": 1}
    lines = card_markdown(figures).splitlines()
    assert "| tabfact | 1 | 0 | 1 |" in lines
    assert "| webqa | not checked | not checked | not checked |" in lines


def test_names_from_data_are_not_taken_for_markup() -> None:
    figures = statistics(
        [row(names=["a|b <i>"])], sets=["one|two\nthree"], dropped={"no | recall": 3}, questions={"x|y": None}
    )
    card = card_markdown(figures)
    assert "| one\\|two three | 1 |" in card and "| no \\| recall | 3 |" in card and "| x\\|y | not checked |" in card
    assert "| a\\|b &lt;i&gt; | 1 |" in card and "<i>" not in card
    tables = [line.replace("\\|", "") for line in card.splitlines() if line.startswith("|")]
    widths = [line.count("|") for line in tables]
    for number, line in enumerate(tables):
        if set(line) <= set("| -"):
            assert widths[number - 1] == widths[number] == widths[number + 1]


def test_card_and_figures_are_written_side_by_side(tmp_path: Path) -> None:
    figures = statistics([row(), row("What?")], dropped={"recall": 5}, tokenizer=WordPieces())
    write_card(tmp_path / "out", figures)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["card.md", "stats.json"]
    assert json.loads((tmp_path / "out" / "stats.json").read_text()) == figures
    card = (tmp_path / "out" / "card.md").read_text()
    assert card == card_markdown(figures) and card.startswith("# Step data\n\n2 rows, 6 steps, 0 rows with an image.\n")
    assert "1,024 tokens a prompt and 1,024 a reply." in card and "| recall | 5 |" in card
    assert "## Leakage" not in card


def test_a_card_of_no_rows_is_a_card() -> None:
    card = card_markdown(statistics([]))
    assert card.startswith("# Step data\n\n0 rows") and "tokens were not counted" in card


def test_the_commonest_routes_are_shown() -> None:
    rows = [row(names=[f"retriever {n}"]) for n in range(25)]
    card = card_markdown(statistics([*rows, rows[-1]]))
    assert "The 20 commonest of 25." in card
    assert card.count("| retriever ") == 20 and "| retriever 24 | 2 |" in card
