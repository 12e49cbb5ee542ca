"""Two results files on the same questions: paired differences and flips."""

import json
from pathlib import Path
from typing import Any

import pytest

from r1_router.compare import compare, describe
from r1_router.errors import DataError
from r1_router.predictions import ResultsFile, read_predictions


def results(path: Path, answers: dict[str, str | None], **more: Any) -> ResultsFile:
    """A file of yes/no questions, all with the gold `yes`, answered as given by id."""
    rows = (
        {"id": id_, "question": f"is {id_} so?", "answer": "yes", "llm_answer": text} | more
        for id_, text in answers.items()
    )
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return read_predictions(path)


def test_differences_are_a_minus_b_over_the_shared_questions(tmp_path: Path) -> None:
    a = results(tmp_path / "a.jsonl", {"1": "yes", "2": "yes", "3": "no", "only a": "yes"})
    b = results(tmp_path / "b.jsonl", {"3": "yes", "2": "no", "1": "yes"})
    found = compare(a, b, ["f1_recall", "yes_no", "numeric"])
    assert (found.shared, found.only_a, found.only_b) == (3, 1, 0)
    recall, labels = found.differences
    assert (recall.metric.name, recall.n) == ("f1_recall", 3)
    assert (recall.a, recall.b) == pytest.approx((2 / 3, 2 / 3))
    assert recall.interval.mean == pytest.approx(0.0)
    assert labels.metric.name == "yes_no"
    assert [(flip.a.id, flip.a_right) for flip in found.flips] == [("2", True), ("3", False)]
    assert compare(a, b, ["f1_recall"], seed=0).differences[0] == recall


def test_a_gold_alone_in_a_list_is_the_gold(tmp_path: Path) -> None:
    listed, plain = (
        results(tmp_path / "a.jsonl", {"1": "yes"}, answer=["yes"]),
        results(tmp_path / "b.jsonl", {"1": "no"}),
    )
    assert compare(listed, plain, ["f1_recall"]).shared == 1


def test_a_sure_difference_is_marked(tmp_path: Path) -> None:
    right = results(tmp_path / "a.jsonl", {str(number): "yes" for number in range(40)})
    wrong = results(tmp_path / "b.jsonl", {str(number): "no" for number in range(40)})
    text = describe(compare(right, wrong, ["f1_recall", "predicted_tokens"]), flips=2)
    lines = text.splitlines()
    line = next(line for line in lines if line.startswith("f1_recall@1"))
    assert line.split() == ["f1_recall@1", "40", "100.00", "0.00", "100.00", "[100.00,", "100.00]", "*"]
    assert next(line for line in lines if line.startswith("predicted_tokens@1")).endswith("[0.00, 0.00]")
    assert "right only in A: 40" in lines and "right only in B: 0" in lines
    assert sum(line.startswith("    A ") for line in lines) == 2


def test_questions_without_ids_are_paired_by_text_picture_and_place_among_their_likes(tmp_path: Path) -> None:
    def asked(picture: int, answer: str) -> str:
        row = {"question": "Who is the CEO?", "answer": "yes", "image_id": picture, "llm_answer": answer}
        return json.dumps(row) + "\n"

    a, b = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    a.write_text(asked(1, "yes") + asked(2, "yes") + asked(1, "yes"))
    b.write_text(asked(2, "no") + asked(1, "yes") + asked(1, "no") + asked(3, "yes"))
    found = compare(read_predictions(a), read_predictions(b), ["f1_recall"])
    assert (found.shared, found.only_a, found.only_b) == (3, 0, 1)
    assert [(flip.a.line, flip.b.line) for flip in found.flips] == [(2, 1), (3, 3)]


def test_other_golds_or_other_questions_are_refused(tmp_path: Path) -> None:
    a = results(tmp_path / "a.jsonl", {"1": "yes"})
    with pytest.raises(DataError, match=r"a\.jsonl, line 1, and .*b\.jsonl, line 1: .*'yes' and 'no'"):
        compare(a, results(tmp_path / "b.jsonl", {"1": "yes"}, answer="no"))
    with pytest.raises(DataError, match="share no question"):
        compare(a, results(tmp_path / "b.jsonl", {"2": "yes"}))


def test_texts_from_data_cannot_command_the_terminal(tmp_path: Path) -> None:
    a = results(tmp_path / "a.jsonl", {"1": "yes"})
    b = results(tmp_path / "b.jsonl", {"1": "\x1b[2J\ud800 no\n" + "x" * 500})
    text = describe(compare(a, b))
    assert "\x1b" not in text
    text.encode()
    assert max(map(len, text.splitlines())) <= 200
