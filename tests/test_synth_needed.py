"""The filter that asks the teacher again without each retrieval, and what is taken away with one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from loopback import serving
from r1_router import jsonl
from r1_router.cli import app
from r1_router.errors import ConfigError
from r1_router.llm.scripted import ScriptedLLM
from r1_router.methods import Settings
from r1_router.prompts import load_prompts
from r1_router.synthesis.filters import FILTERS, NEEDED
from r1_router.synthesis.needed import concluding, needed, trials, without
from r1_router.types import NONE, Plan, Step, Trajectory
from teacher_server import Server, build_world
from test_methods import GOOD_ANSWER, finished, shelves
from test_synthesis import step, trajectory

BRIDGE = trajectory(
    "1852",
    step("who designed the church?", "it was gaudi", "a"),
    step("when was gaudi born?", "1852", "b"),
    Step(Plan("", NONE)),
    gold="1852",
    text="When was the architect of the church born?",
)
PARALLEL = trajectory(
    "brazil",
    step("how many goals had france?", "15", "a"),
    step("how many goals had brazil?", "14", "b"),
    gold="Brazil",
    text="Who had fewer goals, France or Brazil?",
)


def queries(steps: tuple[Step, ...]) -> list[str]:
    return [one.plan.query for one in steps]


def test_what_leans_on_a_retrieval_goes_with_it() -> None:
    assert queries(without(BRIDGE, 0)) == []
    assert queries(without(BRIDGE, 1)) == ["who designed the church?"]
    assert queries(without(PARALLEL, 0)) == ["how many goals had brazil?"]
    assert [one.passages for one in without(PARALLEL, 0)] == [()]


def test_each_rest_is_tried_once_under_an_id_of_its_own() -> None:
    twice = trajectory("oslo", step("who?", "harald", "a"), step("who?", "harald", "a"))
    assert len(trials(twice)) == 1 and len(trials(BRIDGE)) == 2
    ids = {one.question.id for one in (*trials(BRIDGE), *trials(PARALLEL))}
    assert len(ids) == 4
    assert trials(trajectory("oslo")) == []


@pytest.mark.parametrize(
    ("replies", "kept"),
    [
        ([GOOD_ANSWER.format("1853"), GOOD_ANSWER.format("gaudi")], True),
        ([GOOD_ANSWER.format("1853"), GOOD_ANSWER.format("in 1852")], False),
        (["no", "no", GOOD_ANSWER.format("gaudi")], True),
    ],
)
def test_a_trajectory_is_kept_where_no_rest_is_answered_rightly(replies: list[str], kept: bool) -> None:
    llm, asked = ScriptedLLM(replies), {one.question.id: one for one in trials(BRIDGE)}
    method = concluding(Settings(load_prompts("guided")), asked)
    answered = [finished(method(one.question, llm, shelves())) for one in asked.values()]
    assert len(llm.calls) == len(replies)
    assert needed(answered).keeps(BRIDGE) == kept


def test_what_could_not_be_asked_is_not_kept() -> None:
    failed = [Trajectory(one.question, error="EngineError: down") for one in trials(BRIDGE)]
    assert not needed(failed).keeps(BRIDGE) and not needed([]).keeps(BRIDGE)
    with pytest.raises(ConfigError, match="asks the teacher"):
        FILTERS[NEEDED].keeps(BRIDGE)


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(Server()) as running:
        yield running


def test_a_needless_hop_is_dropped_and_nothing_is_asked_twice(server: Server, tmp_path: Path) -> None:
    sets = {"golden": {"questions": "gold.jsonl", "gold": True, "prompts": "guided"}}
    config = build_world(tmp_path, server.url, out="steps", sets=sets, filters=["recall", "needed"])
    hops = [
        {"query": f"in which region does velm{town} lie?", "source": "text retriever", "answer": f"Arda{town}"}
        | {"gold_ids": [f"text/Velm{town}"]}
        for town in ("03", "04")
    ]
    river: dict[str, Any] = {"query": "which river flows through arda03?", "source": "table retriever"}
    river |= {"gold_ids": ["table/Arda03"], "answer": "Brook03"}
    asked = {"question": "Which river flows through the region of Velm03?", "answers": ["Brook03"]}
    rows = [{"id": "good", "hops": [hops[0], river]}, {"id": "needless", "hops": [hops[1], hops[0], river]}]
    jsonl.rewrite(tmp_path / "gold.jsonl", [row | asked for row in rows])
    command = ["synthesize", "--config", str(config)]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    drops = json.loads((tmp_path / "steps" / "golden.drops.json").read_text())
    assert drops == {"asked": 2, "kept": 1, "dropped": {"needed": 1}}
    assert [row["id"] for row in jsonl.read(tmp_path / "steps" / "golden.kept.jsonl")] == ["good"]
    calls = server.calls
    assert calls >= 5 and CliRunner().invoke(app, command).exit_code == 0 and server.calls == calls


def test_files_of_other_settings_are_put_aside_when_asked(server: Server, tmp_path: Path) -> None:
    config = build_world(tmp_path, server.url, out="steps", sets={"mine": {"questions": "mine.jsonl"}})
    assert CliRunner().invoke(app, ["synthesize", "--config", str(config)]).exit_code == 0
    changed = yaml.safe_load(config.read_text()) | {"sampling": {"max_tokens": 77}}
    config.write_text(yaml.safe_dump(changed))
    refused = CliRunner().invoke(app, ["synthesize", "--config", str(config)])
    assert refused.exit_code == 1 and "--fresh puts it aside" in " ".join(refused.output.split())
    assert CliRunner().invoke(app, ["synthesize", "--config", str(config), "--fresh"]).exit_code == 0
    assert (tmp_path / "steps" / "mine.rollouts.1.jsonl").is_file()
