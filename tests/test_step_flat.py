"""Nested rows to flat ones and back: nothing lost, in any order, as JSONL and as Parquet."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from r1_router import jsonl
from r1_router.errors import ConfigError, DataError, MissingDependency
from r1_router.synthesis.commands import steps_app
from r1_router.synthesis.flat import flat_rows, nested, read_flat, write_flat

STEPS = Path(__file__).parents[1].parent / "shared" / "datasets" / "grpo_dataset_valid_new.jsonl"

TEXT = st.text(max_size=20)
ROUTES = st.fixed_dictionaries({"query": TEXT, "retriever": st.lists(TEXT, min_size=1, max_size=1)})
ANSWERS = st.one_of(ROUTES, TEXT, st.lists(TEXT, max_size=3))
STEP = st.fixed_dictionaries(
    {"step_type": st.sampled_from(["ret", "ans"]), "problem": TEXT, "system": TEXT, "answer": ANSWERS}
)
ROW = st.fixed_dictionaries({"images": st.lists(TEXT, max_size=2), "steps": st.lists(STEP, min_size=1, max_size=5)})


def row(answer: Any = "b", images: list[str] | None = None) -> dict[str, Any]:
    route = {"query": "who?", "retriever": ["text retriever"]}
    return {
        "images": images or [],
        "steps": [
            {"step_type": "ret", "problem": "Origin question: q\n", "system": "route", "answer": route},
            {"step_type": "ans", "problem": "ter-0: a\n\nQuestion: who?", "system": "answer", "answer": answer},
        ],
    }


@given(st.lists(ROW, max_size=5), st.randoms(use_true_random=False))
def test_nothing_is_lost_whatever_the_order(rows: list[dict[str, Any]], rng: random.Random) -> None:
    flat = list(flat_rows(rows))
    rng.shuffle(flat)
    assert nested(flat) == rows


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(ROW, max_size=4))
@pytest.mark.parametrize("ending", [".jsonl", ".parquet"])
def test_nothing_is_lost_in_a_file(tmp_path: Path, ending: str, rows: list[dict[str, Any]]) -> None:
    if ending == ".parquet":
        pytest.importorskip("pyarrow")
    path = tmp_path / f"flat{ending}"
    write_flat(path, rows)
    assert list(read_flat(path)) == list(flat_rows(rows))
    assert nested(read_flat(path)) == rows


def test_a_flat_row_has_a_chat_prompt_and_a_target_in_json() -> None:
    first, second = flat_rows([row(["Zoë", "b"], ["a.jpg"])])
    assert first == {
        "id": "1-1",
        "row": 1,
        "step": 1,
        "step_type": "ret",
        "prompt": [{"role": "system", "content": "route"}, {"role": "user", "content": "Origin question: q\n"}],
        "images": ["a.jpg"],
        "target": '{"query": "who?", "retriever": ["text retriever"]}',
    }
    assert second["target"] == '["Zoë", "b"]' and second["id"] == "1-2"


@pytest.mark.parametrize("ending", [".jsonl", ".parquet"])
def test_the_commands_bring_the_published_file_back(tmp_path: Path, ending: str) -> None:
    if not STEPS.is_file():
        pytest.skip(f"the published step data ({STEPS.name}) is not here")
    if ending == ".parquet":
        pytest.importorskip("pyarrow")
    flat, back = tmp_path / f"flat{ending}", tmp_path / "back.jsonl"
    for arguments in (["flatten", str(STEPS), "--to", str(flat)], ["nest", str(flat), "--to", str(back)]):
        done = CliRunner().invoke(steps_app, arguments, catch_exceptions=False)
        assert done.exit_code == 0 and "written to" in done.output
    assert list(map(json.dumps, jsonl.read(back))) == list(map(json.dumps, jsonl.read(STEPS)))
    assert len(list(read_flat(flat))) == 758


def test_the_same_rows_give_the_same_bytes(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    for name in ("one.parquet", "two.parquet"):
        write_flat(tmp_path / name, [row()])
    assert (tmp_path / "one.parquet").read_bytes() == (tmp_path / "two.parquet").read_bytes()


def test_half_a_character_survives_in_jsonl_and_is_refused_by_parquet(tmp_path: Path) -> None:
    rows = [row("half \ud83d")]
    write_flat(tmp_path / "flat.jsonl", rows)
    assert nested(read_flat(tmp_path / "flat.jsonl")) == rows
    pytest.importorskip("pyarrow")
    with pytest.raises(DataError, match=r"write \.jsonl"):
        write_flat(tmp_path / "flat.parquet", rows)
    assert not (tmp_path / "flat.parquet").exists()


def test_a_step_that_is_missing_or_there_twice_is_an_error() -> None:
    flat = list(flat_rows([row(), row()]))
    with pytest.raises(DataError, match="row 2: the steps 1 are missing"):
        nested([flat[0], flat[1], flat[3]])
    with pytest.raises(DataError, match="flat row 5: step 2 of row 1 is there twice"):
        nested([*flat, flat[1]])
    assert nested(flat[2:]) == [row()]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"target": "{"}, "1-2: target is not JSON"),
        ({"images": ["b.jpg"]}, "row 1: its steps name different images"),
        ({"prompt": [{"role": "user", "content": "q"}]}, "flat row 2: expected a system and a user message, found u"),
    ],
)
def test_flat_rows_that_do_not_fit_are_an_error(change: dict[str, Any], said: str) -> None:
    first, second = flat_rows([row()])
    with pytest.raises(DataError, match=said):
        nested([first, {**second, **change}])


def test_what_are_no_flat_or_no_nested_rows_is_told() -> None:
    with pytest.raises(DataError, match="flat row 1: no id, row, step"):
        nested([row()])
    with pytest.raises(DataError, match=r"row 1: .*steps nest"):
        list(flat_rows(list(flat_rows([row()]))))


def test_other_endings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"\.jsonl or \.parquet"):
        write_flat(tmp_path / "flat.csv", [row()])
    with pytest.raises(ConfigError, match=r"\.jsonl or \.parquet"):
        read_flat(tmp_path / "flat.csv")
    jsonl.rewrite(tmp_path / "flat.jsonl", flat_rows([row()]))
    done = CliRunner().invoke(steps_app, ["nest", str(tmp_path / "flat.jsonl"), "--to", str(tmp_path / "rows.parquet")])
    assert isinstance(done.exception, ConfigError)


def test_without_pyarrow_the_pip_command_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingDependency, match="pip install pyarrow"):
        write_flat(tmp_path / "flat.parquet", [row()])


def test_bytes_that_are_no_parquet_file_are_told(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    (tmp_path / "flat.parquet").write_bytes(b"{}")
    with pytest.raises(DataError, match="not a whole Parquet file"):
        list(read_flat(tmp_path / "flat.parquet"))
