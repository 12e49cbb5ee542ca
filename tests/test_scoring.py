"""The metrics against the reference's own numbers (golden data) and by hand."""

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from r1_router import jsonl
from r1_router.errors import ConfigError, DataError
from r1_router.scoring import accepted_in_range, exact_match, normalise, score, squad_tokens, token_f1, tokenise
from r1_router.types import Trajectory

ROOT = Path(__file__).parents[1]
GOLDEN = ROOT.parent / "shared" / "golden"
needs_golden = pytest.mark.skipif(not GOLDEN.is_dir(), reason="the golden data (../shared/golden) is not here")


def golden(name: str) -> Iterator[dict[str, Any]]:
    return jsonl.read(GOLDEN / name)


@needs_golden
def test_every_normalisation_is_the_references() -> None:
    for row in golden("normalization.jsonl"):
        assert normalise(row["text"]) == row["normalized"]
        assert tokenise(row["text"]) == row["tokens"], row["text"]


@needs_golden
def test_every_pair_scores_as_the_reference_scores_it() -> None:
    rows = list(golden("evaluation_pairs.jsonl"))
    assert len(rows) > 8000
    for row in rows:
        found = score(row["prediction"], row["gold"])
        expected = (row["precision"], row["recall"], row["f1"])
        assert (found.precision, found.recall, found.f1) == pytest.approx(expected, abs=1e-9), row


@needs_golden
def test_whole_prediction_files_give_the_printed_figures() -> None:
    files = json.loads((GOLDEN / "evaluation_datasets.json").read_text())["files"]
    assert len(files) == 18
    for file in files:
        scores = []
        for record in golden(file["file"]):
            trajectory = Trajectory.from_json(record)
            assert trajectory.answer is not None
            scores.append(score(trajectory.answer.text, trajectory.question.answers))
        assert len(scores) == file["rows"]
        recalls = [one.recall for one in scores]
        assert round(100 * float(np.mean(recalls)), 2) == file["f1_recall"]
        assert np.mean(recalls) == pytest.approx(file["mean_recall"], abs=1e-9)
        assert np.mean([one.precision for one in scores]) == pytest.approx(file["mean_precision"], abs=1e-9)
        assert np.mean([one.f1 for one in scores]) == pytest.approx(file["mean_f1"], abs=1e-9)
        assert np.mean([recall == 1 for recall in recalls]) == pytest.approx(file["share_recall_1"], abs=1e-9)


def expand(low: float, high: float) -> list[str]:
    """A range spelt out the long way, as the independent check of membership."""
    span = high - low
    step = 1 if span >= 50 else 0.1 if span >= 5 else 0.01 if span >= 1 else 0.001
    steps = [str(round(number.item(), 3)) for number in np.arange(low, high + step, step)]
    return steps + [str(number) for number in range(int(low), int(high) + 1)]


def nearby(low: float, high: float) -> Iterator[str]:
    """Numbers in and around a range in several spellings, most of which it must refuse."""
    for value in np.linspace(low - 3, high + 3, 120):
        for places in range(5):
            yield f"{value:.{places}f}".lstrip("-")


@needs_golden
def test_membership_in_a_range_is_the_references_list_and_nothing_else() -> None:
    for row in golden("infoseek_ranges.jsonl"):
        low, high = row["range"]
        listed = expand(low, high)
        assert hashlib.sha256("\n".join(listed).encode()).hexdigest() == row["sha256"]
        accepted = {text.lstrip("-") for text in listed}
        for text in accepted | set(nearby(low, high)):
            assert accepted_in_range(text, low, high) == (text in accepted), (text, low, high)


def test_the_kept_gold_is_the_one_of_highest_f1_not_of_highest_recall() -> None:
    assert score("Paris France", ["Paris", "Paris France Europe"]).recall == pytest.approx(2 / 3)


def test_recall_does_not_punish_length_and_f1_does() -> None:
    scores = score("yes or no", "no")
    assert scores.recall == 1.0
    assert scores.f1 == 0.5


@pytest.mark.parametrize("gold", ["", "the", [], [""]])
def test_a_gold_without_words_is_never_met(gold: Any) -> None:
    assert score("the", gold).f1 == 0.0
    assert score("", gold).f1 == 0.0


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("semi-final (won)", ["semi", "final", "won"]),  # MARKS that touch no space become one
        ("New-York 1,000", ["newyork", "1000"]),  # a comma between digits: every mark is deleted
        ("none of ten", ["0", "of", "10"]),  # NUMBER_WORDS
        ("a dog and the cat", ["a", "dog", "and", "cat"]),  # DROPPED_ARTICLES: `a` stays
        ("dont couldnt've", ["do", "n't", "couldn't", "'ve"]),  # CONTRACTIONS: the apostrophe is put back
        ("Im here", ["im", "here"]),  # but not where the table has a capital
        ("somebody'd go", ["somebodyd", "go"]),  # and here it is taken out
        ("I cannot", ["i", "can", "not"]),  # TOKEN_RULES
        ("a : b", ["a", "b"]),  # UNSCORED
        ("x ''y''", ["x", "``", "y", "''"]),  # a doubled apostrophe is no part of it
    ],
)
def test_quirks_are_kept(text: str, tokens: list[str]) -> None:
    assert tokenise(text) == tokens


def test_full_stops_after_the_32nd_stay_but_where_a_sentence_ends() -> None:
    assert normalise("a. " * 34).count(".") == 2
    assert tokenise("a. " * 34) == ["a"] * 32 + ["a.", "a"]
    assert tokenise("aa. " * 34) == ["aa"] * 34


@pytest.mark.parametrize(
    ("token", "accepted"), [("390", True), ("434.4", False), ("477.6", True), ("478", False), ("nan", False)]
)
def test_a_wide_range_keeps_the_references_oddities(token: str, accepted: bool) -> None:
    assert accepted_in_range(token, 390.6, 477.4) is accepted


@pytest.mark.parametrize(
    ("token", "low", "high", "accepted"),
    [
        ("17" + "7" * 307, 1e308, 1.1e308, False),
        ("9" * 400, 0, 1, False),
        ("5", -int(1.7e308), int(1.7e308), True),
        ("5", -1.7e308, 1.7e308, True),
        ("0", 0.87, 1.2, True),
        ("3.5", -3.5, 2.5, True),
    ],
)
def test_no_number_is_too_large_for_a_range(token: str, low: float, high: float, accepted: bool) -> None:
    assert accepted_in_range(token, low, high) is accepted


def test_a_range_scores_by_any_predicted_number() -> None:
    scores = score("about 6.75 days", [{"wikidata": 6.75, "range": [6.5, 7.0]}])
    assert (scores.precision, scores.recall, scores.f1) == (1 / 3, 1.0, 0.5)
    assert exact_match("6.75", [{"range": [6.5, 7.0]}])
    assert not exact_match("6.75 days", [{"range": [6.5, 7.0]}])


@pytest.mark.parametrize(
    "gold", [{"value": 6}, {"range": 6}, {"range": [1]}, {"range": ["1", "2"]}, {"range": [0, 10**400]}]
)
def test_an_object_gold_without_a_range_is_refused(gold: dict[str, Any]) -> None:
    with pytest.raises(DataError, match="range"):
        score("6", [gold])


def test_a_benchmark_may_be_named_and_must_be_known() -> None:
    gold = [{"wikidata": 6.75, "range": [6.5, 7.0]}]
    assert score("6.75", gold, "infoseek") == score("6.75", gold)
    with pytest.raises(ConfigError, match=r"'hotpotqa'.*infoseek"):
        score("6.75", gold, benchmark="hotpotqa")


def test_no_tokeniser_of_others_is_loaded() -> None:
    """So no model data is asked for, and no user's version of a library moves a figure."""
    code = "import sys, r1_router.metrics, r1_router.predictions; print({'nltk', 'jieba', 'spacy'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "set()\n"


def test_the_speed_benchmark_times_both_scorers_and_a_whole_process(tmp_path: Path) -> None:
    """It fails by itself where the scorer that spells ranges out gives another score for any row."""
    golds: list[Any] = [["Paris", "Paris, France"], [{"range": [390.6, 477.4]}], [{"range": [-2, 3]}], "the 2"]
    rows = [{"question": "?", "answer": gold, "llm_answer": {"answer": "391 or Paris or 2"}} for gold in golds]
    jsonl.rewrite(tmp_path / "toy_dict.jsonl", rows)
    command = [sys.executable, str(ROOT / "benchmarks" / "scoring.py"), str(tmp_path)]
    shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert "toy" in shown and "100.00" in shown and "whole process: " in shown


def test_squad_rules() -> None:
    assert token_f1("The Eiffel Tower!", "eiffel tower") == 1.0
    assert token_f1("tower in Paris", ["Eiffel tower", "big tower of Paris"]) == pytest.approx(4 / 7)
    assert exact_match("a  Cat.", ["dog", "The cat"])
    assert not exact_match("a cat", [])
    assert exact_match("7", 7)


def test_squad_normalisation_never_empties_a_text() -> None:
    assert squad_tokens("The A") == ["the", "a"]
    assert exact_match("A", "a")
    assert not exact_match("A", "the")
    assert token_f1("?", "!") == 0.0
