"""Reading a results file: both answer forms, every fault named with its line, every oddity counted."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from r1_router.errors import DataError
from r1_router.metrics import METRICS
from r1_router.predictions import (
    BLANK,
    EMPTY,
    FAILED,
    NAN,
    REPEATED,
    UNANSWERED,
    WORDLESS_GOLD,
    read_predictions,
    results_files,
)
from r1_router.types import Answer, Question, Trajectory

ROW = {"question": "What is the capital of France?", "answer": "Paris", "llm_answer": "Paris"}


def written(path: Path, *records: Any) -> Path:
    """`path` with a line for each record; a str is a line as it stands."""
    lines = (record if isinstance(record, str) else json.dumps(record) + "\n" for record in records)
    path.write_text("".join(lines), encoding="utf-8")
    return path


def test_both_answer_forms_read_alike(tmp_path: Path) -> None:
    objects = ROW | {"llm_answer": {"thought": "known.", "answer": "Paris"}}
    results = read_predictions(written(tmp_path / "r.jsonl", ROW, ROW | {"question": "Which?"}, objects | {"id": "q7"}))
    assert [one.text for one in results.predictions] == ["Paris"] * 3
    assert [one.line for one in results.predictions] == [1, 2, 3]
    assert results.predictions[2].id == "q7"
    assert results.predictions[0].pair == ("Paris", "Paris")
    assert results.notes() == {}


def test_numbers_are_answers_and_golds_too(tmp_path: Path) -> None:
    row = ROW | {"answer": [17, "seventeen"], "llm_answer": {"answer": 17}}
    assert read_predictions(written(tmp_path / "r.jsonl", row)).predictions[0].pair == ("17", [17, "seventeen"])


FAULTS: dict[str, tuple[tuple[Any, ...], str]] = {
    "torn": ((ROW, json.dumps(ROW)[:-9]), r"line 2: not JSON.*cut short"),
    "not JSON": ((ROW, "}{\n"), r"line 2: not JSON"),
    "not UTF-8": ((ROW, "\udce9\n"), r"line 2: not JSON"),
    "not an object": (("[1]\n",), r"line 1: expected a JSON object"),
    "no question": (({"answer": "x", "llm_answer": "x"},), r"line 1: question: expected"),
    "no gold": ((ROW, "\n", {"question": "q", "llm_answer": "x"}), r"line 3: no gold: expected answer_eval or answer"),
    "gold null": ((ROW | {"answer": None},), r"line 1: answer: a gold is a text.*None"),
    "gold empty": ((ROW | {"answer": []},), r"line 1: answer: the gold is empty"),
    "gold blank": ((ROW | {"answer": ["", " "]},), r"line 1: answer: the gold is empty"),
    "gold NaN": (('{"question": "q", "answer": [NaN], "llm_answer": "x"}\n',), r"line 1: answer: a gold is.*nan"),
    "gold range NaN": (('{"question": "q", "answer": [{"range": [NaN, 2]}]}\n',), r"line 1: answer: a gold is"),
    "gold range upside down": ((ROW | {"answer": [{"range": [2, 1]}]},), r"line 1: answer: a gold is"),
    "gold beyond floats": ((ROW | {"answer": [{"range": [1, 10**400]}]},), r"line 1: answer: a gold is"),
    "gold range of texts": ((ROW | {"answer": [{"range": ["1", "2"]}]},), r"line 1: answer: a gold is"),
    "gold a number beyond floats": ((ROW | {"answer": 10**400},), r"line 1: answer: a gold is"),
    "gold of 5000 digits": (('{"question": "q", "answer": ' + "1" * 5000 + "}\n",), r"line 1: not JSON"),
    "answer beyond floats": ((ROW | {"llm_answer": 10**400},), r"line 1: llm_answer: expected a text"),
    "answer NaN": (('{"question": "q", "answer": "x", "llm_answer": {"answer": NaN}}\n',), r"line 1: llm_answer.*nan"),
    "answer a list": ((ROW | {"llm_answer": ["Paris"]},), r"line 1: llm_answer: expected a text"),
    "answer without answer": ((ROW | {"llm_answer": {"thought": "t"}},), r"line 1: llm_answer: .*'thought'"),
    "id twice": ((ROW | {"id": "q1"}, ROW, ROW | {"id": "q1"}), r"line 3: the id 'q1' stands in line 1 too"),
    "empty": ((), r"r\.jsonl holds no record"),
    "only blank lines": (("\n", "  \n"), r"r\.jsonl holds no record"),
}


@pytest.mark.parametrize(("lines", "message"), FAULTS.values(), ids=FAULTS)
def test_every_fault_names_file_and_line(tmp_path: Path, lines: tuple[Any, ...], message: str) -> None:
    path = tmp_path / "r.jsonl"
    text = "".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines)
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(DataError, match=message) as caught:
        read_predictions(path)
    assert str(path) in str(caught.value)


def test_a_missing_file_names_its_neighbours(tmp_path: Path) -> None:
    written(tmp_path / "tabfact_cot.jsonl", ROW)
    with pytest.raises(DataError, match=r"no results file .*tabfact_r1-router3\.jsonl.*has tabfact_cot\.jsonl"):
        read_predictions(tmp_path / "tabfact_r1-router3.jsonl")


def test_verdicts_kept_beside_results_are_not_results(tmp_path: Path) -> None:
    path = written(tmp_path / "tabfact_cot.jsonl", ROW)
    verdicts = written(tmp_path / "tabfact_cot.judge.jsonl", {"key": "k", "question": "q", "golds": ["x"]})
    assert results_files(tmp_path) == [path]
    with pytest.raises(DataError, match=r"has tabfact_cot\.jsonl\)"):
        read_predictions(tmp_path / "tabfact_r1-router3.jsonl")
    with pytest.raises(DataError, match=r"cot\.judge\.jsonl, line 1: no gold"):
        read_predictions(verdicts)


def test_only_the_named_gold_keys_count(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no gold: expected answer_eval;"):
        read_predictions(written(tmp_path / "r.jsonl", ROW), ("answer_eval",))


def test_what_a_figure_can_bear_is_counted(tmp_path: Path) -> None:
    rows = (
        ROW,
        "\n",
        ROW,
        ROW | {"id": "a", "llm_answer": ""},
        {"id": "b", "question": "q", "answer": "x", "error": "EngineError: out of memory"},
        {"id": "c", "question": "q", "answer": "x"},
        {"id": "d", "question": "q", "answer": "x", "llm_answer": {"answer": None}},
        ROW | {"id": "e", "answer": "?!"},
        '{"id": "f", "question": "q", "answer": "x", "llm_answer": "x", "gloden_query": NaN}\n',
    )
    results = read_predictions(written(tmp_path / "r.jsonl", *rows))
    assert len(results.predictions) == 8
    assert results.notes() == {EMPTY: 1, FAILED: 1, UNANSWERED: 2, WORDLESS_GOLD: 1, NAN: 1, REPEATED: 1, BLANK: 1}


def test_what_a_run_writes_is_read_back(tmp_path: Path) -> None:
    asked = Question("q1", "Which?", ["Paris", "Paris, France"], "factbook", "queries/q1.jpg", {"n_hops": 1})
    done = Trajectory(asked, answer=Answer("known.", "Paris"))
    failed = Trajectory(Question("q2", "Where?", ["Rome"]), error="EngineError: out of memory")
    results = read_predictions(written(tmp_path / "r.jsonl", done.to_json(), failed.to_json()))
    assert [(one.id, one.image, one.pair) for one in results.predictions] == [
        ("q1", "queries/q1.jpg", ("Paris", ["Paris", "Paris, France"])),
        ("q2", "", ("", ["Rome"])),
    ]
    assert results.notes() == {FAILED: 1}


any_value = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
any_row = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("question", "answer", "llm_answer", "id", "image", "error"), any_value)
)
likely_row = st.fixed_dictionaries(
    {"question": st.text(st.characters()), "answer": any_value, "llm_answer": st.text(st.characters()) | any_value}
)
any_json = (likely_row | any_row | any_value).map(lambda value: json.dumps(value).encode() + b"\n")


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=st.lists(any_json | st.binary(max_size=9), max_size=4))
def test_whatever_a_file_holds_it_is_scored_or_refused_by_name(tmp_path: Path, lines: list[bytes]) -> None:
    path = tmp_path / "r.jsonl"
    path.write_bytes(b"".join(lines))
    try:
        results = read_predictions(path)
    except DataError as error:
        assert str(path) in str(error)
    else:
        figures = [metric.of(*one.pair) for one in results.predictions for metric in METRICS.values()]
        assert figures and all(figure is None or figure >= 0 for figure in figures)
