"""The synthesis as its user runs it: a teacher behind a server, gold hops, kills, the published commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from r1_router import jsonl
from r1_router.cli import app
from r1_router.synthesis.check import check_rows
from r1_router.types import PUBLISHED_SOURCES
from test_stages import ROOT, Server, built, server, world  # noqa: F401  (fixtures)
from tiny_models import save_tiny_model

OUTPUTS = ("steps_train.jsonl", "steps_valid.jsonl")


def with_synthesis(root: Path, **settings: Any) -> Path:
    """The world's config with a synthesis section; its hops are those of the text base."""
    hops = [{"query": "t1 fact 1?", "source": "text retriever", "gold_ids": ["text/1"], "answer": "fact 1"}]
    gold = [{"id": f"g{n}", "question": f"gold {n}?", "answers": ["fact 1"], "hops": hops} for n in range(2)]
    jsonl.rewrite(root / "gold.jsonl", gold)
    config = yaml.safe_load((root / "config.yaml").read_text())
    sets = {"taught": {"questions": "factbook"}, "golden": {"questions": "gold.jsonl", "gold": True}}
    config["shown"] = 4
    config["synthesis"] = {"out": "steps", "sets": sets, "validation_share": 0.4, **settings}
    (root / "config.yaml").write_text(yaml.safe_dump(config))
    return root


def synthesize(root: Path) -> Result:
    return CliRunner().invoke(app, ["synthesize", "--config", str(root / "config.yaml")])


def outputs(root: Path) -> list[bytes]:
    return [(root / "steps" / name).read_bytes() for name in OUTPUTS]


def test_rollouts_are_filtered_and_cut_into_rows(world: Path) -> None:  # noqa: F811
    result = synthesize(with_synthesis(world))
    assert result.exit_code == 0, result.output
    drops = json.loads((world / "steps" / "taught.drops.json").read_text())
    assert drops == {"asked": 3, "kept": 1, "dropped": {"recall": 2}}
    assert json.loads((world / "steps" / "golden.drops.json").read_text())["kept"] == 2
    rows = [row for name in OUTPUTS for row in jsonl.read(world / "steps" / name)]
    shapes = sorted(tuple(step["step_type"] for step in row["steps"]) for row in rows)
    assert shapes == [
        ("ret", "ans", "ret", "ans"),
        ("ret", "ans", "ret", "ans"),
        ("ret", "ans", "ret", "ans", "ret", "ans"),
    ]
    assert all(row["steps"][-1]["answer"] == ["fact 1"] for row in rows)
    figures = json.loads((world / "steps" / "stats.json").read_text())
    assert figures["rows"] == 3 and figures["dropped"] == {"recall": 2}
    assert figures["leakage"]["infoseek"] is None and "factbook" not in figures["leakage"]
    assert "| recall | 2 |" in (world / "steps" / "card.md").read_text()
    checked = [
        CliRunner().invoke(app, ["steps", "check", str(world / "steps" / name), "--config", str(world / "config.yaml")])
        for name in OUTPUTS
    ]
    assert [one.exit_code for one in checked] == [0, 0], checked[0].output + checked[1].output


def test_a_run_cut_short_gives_the_files_of_an_undisturbed_one(world: Path, server: Server) -> None:  # noqa: F811
    with_synthesis(world)
    assert synthesize(world).exit_code == 0
    undisturbed, calls = outputs(world), server.calls
    rollouts = world / "steps" / "taught.rollouts.jsonl"
    lines = rollouts.read_bytes().splitlines(keepends=True)
    rollouts.write_bytes(lines[2] + lines[0][:30])
    for name in (*OUTPUTS, "taught.kept.jsonl"):
        (world / "steps" / name).unlink()
    assert synthesize(world).exit_code == 0
    assert outputs(world) == undisturbed
    assert 0 < server.calls - calls < calls
    again = server.calls
    (world / "encoder").rename(world / "put away")
    config = yaml.safe_load((world / "config.yaml").read_text())
    del config["synthesis"]["sets"]["golden"]  # its evidence is searched for anew
    (world / "config.yaml").write_text(yaml.safe_dump(config))
    assert synthesize(world).exit_code == 0 and server.calls == again  # nothing is loaded to find that all is there


def test_gold_of_every_length_keeps_the_rules(world: Path) -> None:  # noqa: F811
    with_synthesis(world, sets={"golden": {"questions": "gold.jsonl", "gold": True}})
    (hop,) = next(jsonl.read(world / "gold.jsonl"))["hops"]
    asked = [{"id": f"{n}", "question": f"{n} hops?", "answers": ["fact 1"], "hops": [hop] * n} for n in range(5)]
    jsonl.rewrite(world / "gold.jsonl", asked)
    assert synthesize(world).exit_code == 0
    made = [row for name in OUTPUTS for row in jsonl.read(world / "steps" / name)]
    assert sorted(len(row["steps"]) for row in made) == [4, 6, 7]  # none of 0 hops, none of 4, no stop after 3
    assert check_rows(made, PUBLISHED_SOURCES, 4).sound
    drops = json.loads((world / "steps" / "golden.drops.json").read_text())
    assert drops == {"asked": 5, "kept": 3, "dropped": {"gold not shown": 2}}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"source": "web"}, "question g0: a hop asks the 'web'"),
        ({"query": None}, "question g0: a gold hop lacks query"),
    ],
)
def test_a_gold_hop_that_cannot_be_followed_is_named(world: Path, change: dict[str, Any], told: str) -> None:  # noqa: F811
    with_synthesis(world, sets={"golden": {"questions": "gold.jsonl", "gold": True}})
    rows = list(jsonl.read(world / "gold.jsonl"))
    hop = {key: value for key, value in (rows[0]["hops"][0] | change).items() if value is not None}
    jsonl.rewrite(world / "gold.jsonl", [row | {"hops": [hop]} for row in rows])
    done = synthesize(world)
    assert done.exit_code == 1 and told in " ".join(done.output.split())


def test_an_adapter_is_tuned_on_the_rows_of_any_bases(world: Path) -> None:  # noqa: F811
    with_synthesis(world, sets={"golden": {"questions": "gold.jsonl", "gold": True}})
    config = yaml.safe_load((world / "config.yaml").read_text())
    sft = {"model": str(save_tiny_model(world / "llm")), "output": "tuned", "rank": 2, "max_length": 4096}
    sft["data"] = "steps/replies_train.jsonl"
    (world / "config.yaml").write_text(yaml.safe_dump({**config, "training": {"mine": {"kind": "steps", "sft": sft}}}))
    command = ["train", "sft", "--config", str(world / "config.yaml"), "--adapter", "mine"]
    early = CliRunner().invoke(app, command)
    assert early.exit_code == 1 and "`r1-router synthesize` makes them" in " ".join(early.output.split())
    assert synthesize(world).exit_code == 0
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert (world / "tuned" / "adapter_model.safetensors").is_file()
    rows = [list(jsonl.read(world / "steps" / f"replies_{part}.jsonl")) for part in ("train", "valid")]
    assert [row["step_type"] for own in rows for row in own] == ["ret", "ans", "ret", "final"] * 2


def test_questions_of_ones_own_need_no_section_and_get_a_folder_of_their_own(world: Path) -> None:  # noqa: F811
    rows = [{"question": "What is fact 1?", "answer": "fact 1"}, {"question": "What is fact 2?", "answer": "fact 2"}]
    jsonl.rewrite(world / "mine.jsonl", rows)
    command = ["synthesize", "--config", str(world / "config.yaml"), "--questions", str(world / "mine.jsonl")]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    drops = json.loads((world / "runs" / "mine" / "mine.drops.json").read_text())
    assert drops == {"asked": 2, "kept": 1, "dropped": {"recall": 1}}
    (row,) = jsonl.read(world / "runs" / "mine" / "steps_train.jsonl")
    assert row["steps"][0]["problem"] == "Origin question: What is fact 1?\n"


def test_the_published_commands(world: Path) -> None:  # noqa: F811
    with_synthesis(world, sets={"taught": {"questions": "factbook"}})
    environment = os.environ | {
        "CONFIG": str(world / "config.yaml"),
        "ROUTER": sys.executable,
        "PYTHONPATH": str(ROOT / "src"),
    }
    command = ["bash", str(ROOT / "src/data_synthesis/data_synthesis.sh")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "taught: 2 dropped, recall" in done.stdout and "steps_train.jsonl" in done.stdout
    assert len(b"".join(outputs(world)).splitlines()) == 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"filters": ["grounded?"]}, "there are recall"), ({"most": 0}, "nothing was kept")],
)
def test_what_cannot_be_is_an_error_that_names_the_fix(
    world: Path,  # noqa: F811
    settings: dict[str, Any],
    message: str,
) -> None:
    result = synthesize(with_synthesis(world, **settings))
    assert result.exit_code == 1 and message in " ".join(result.output.split())


def test_a_config_without_the_section_is_told_where_one_is_shown(world: Path) -> None:  # noqa: F811
    result = synthesize(world)
    assert result.exit_code == 1 and "configs/factbook.yaml" in result.output
