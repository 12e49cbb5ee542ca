"""The report: figures as scored, texts escaped, the same bytes for the same run."""

from __future__ import annotations

from pathlib import Path

from r1_router.report import MethodRun, headline, html_page, instructive, markdown, slices, write_report
from r1_router.summary import summarise
from r1_router.types import TEXT, Answer, Passage, Plan, Question, Step, Trajectory


def trajectory(number: int, answer: str, *, text: str = "Capital of Fiji?", hops: int = 1) -> Trajectory:
    question = Question(str(number), text, ["Suva"], extra={"n_hops": hops, "wording": "seen", "kind": "fact"})
    step = Step(Plan("known: nothing.", "capital of fiji?", (TEXT,)), (Passage("p", "Fiji: <b>Suva</b>", 1.0, TEXT),))
    return Trajectory(question, (step,), Answer("", answer))


def run(*trajectories: Trajectory, method: str = "r1-router") -> MethodRun:
    summary = summarise(trajectories, benchmark="b", method=method, model="m", seconds_per_question=1.25)
    return summary | {"routing_accuracy": 0.5, "hit_at_5": {"text retriever": 1.0}}, trajectories


def test_headline_holds_means_and_intervals() -> None:
    row = headline([run(trajectory(1, "suva"), trajectory(2, "nadi"))])[0]
    assert row[0] == "r1-router"
    assert row[1].startswith("0.500 [0.000, 1.000]")
    assert row[3:6] == ("0.50", "text 1.00", "1.25")


def test_slices_split_by_hops() -> None:
    parts = dict(slices([trajectory(1, "suva"), trajectory(2, "nadi", hops=2)]))
    assert [row[:2] for row in parts["n_hops"]] == [("1", "1"), ("2", "1")]
    assert parts["n_hops"][0][2].startswith("1.000")


def test_texts_from_data_are_escaped() -> None:
    page = html_page("b<>", [run(trajectory(1, "<script>alert(1)</script>", text="<img src=x>"))])
    assert "<script>" not in page and "<img" not in page and "<b>Suva" not in page
    assert "&lt;script&gt;" in page


def test_a_pipe_in_markdown_does_not_break_the_table() -> None:
    table = markdown("factbook", [run(trajectory(1, "suva"), method="a|b")])
    assert "a\\|b" in table


def test_failed_questions_are_counted_not_dropped() -> None:
    failed = Trajectory(Question("1", "q", ["a"]), error="EngineError: down")
    row = headline([run(failed, trajectory(2, "suva"))])[0]
    assert row[1].startswith("0.500") and row[-1] == "1"


def test_instructive_mixes_right_and_wrong() -> None:
    many = [trajectory(n, "suva" if n % 2 else "nadi") for n in range(40)]
    chosen = instructive(many)
    assert len(chosen) == 10
    assert {item.answer.text for item in chosen if item.answer} == {"suva", "nadi"}
    assert len(instructive(many[:1])) == 1


def test_report_is_the_same_bytes_twice(tmp_path: Path) -> None:
    runs = [run(trajectory(1, "suva"))]
    first = write_report(tmp_path, "factbook", runs).read_bytes()
    assert write_report(tmp_path, "factbook", runs).read_bytes() == first
    assert b"http" not in first
