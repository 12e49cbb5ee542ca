"""Step-GRPO by verl as far as it goes without verl: the rows, the reward, the command."""

from __future__ import annotations

import asyncio
import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from r1_router import jsonl
from r1_router.cli import app
from r1_router.errors import ConfigError, DataError, MissingDependency
from r1_router.training.grpo.prompts import read_prompts
from r1_router.training.verl import launch
from r1_router.training.verl_reward import ScoreSettings, compute_score, score_steps
from r1_router.training.verl_rows import require_readable, verl_row
from verl_samples import CONFIG, REPLIES, ROUTE, expected
from verl_samples import encoder as encoder
from verl_samples import picture as picture
from verl_samples import rows as rows


def test_print_tells_the_command_and_does_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    told: list[str] = []
    assert launch(CONFIG, ["trainer.n_gpus_per_node=4"], show=True, say=told.append) == 0
    assert "-m verl.trainer.main_ppo --config-path" in told[0]
    assert told[0].endswith("--config-name verl_stepgrpo trainer.n_gpus_per_node=4")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ConfigError, match=r"no file nowhere\.yaml"):
        launch(Path("nowhere.yaml"))


def test_the_command_line_hands_over() -> None:
    arguments = ["train", "step-grpo", "trainer.n_gpus_per_node=4", "--print"]
    done = CliRunner().invoke(app, [*arguments, "--engine", "verl"])
    assert done.exit_code == 0 and done.output.endswith("--config-name verl_stepgrpo trainer.n_gpus_per_node=4\n")
    assert "--engine verl" in CliRunner().invoke(app, arguments).output


@pytest.mark.skipif(find_spec("verl") is not None, reason="verl is installed")
def test_without_verl_the_pip_command_is_told() -> None:
    with pytest.raises(MissingDependency, match=r'pip install "verl\[fsdp,vllm\]==0\.9\.1"'):
        launch(CONFIG)


def test_the_config_names_a_reward_that_takes_its_settings() -> None:
    reward = yaml.safe_load(CONFIG.read_text())["reward"]["custom_reward_function"]
    assert reward["path"] == f"pkg://{compute_score.__module__}" and reward["name"] == compute_score.__name__
    assert ScoreSettings.read(**reward["reward_kwargs"]) == ScoreSettings()


def test_a_row_has_its_system_prompt_its_picture_and_its_target(
    tmp_path: Path, rows: list[dict[str, Any]], picture: Path
) -> None:
    jsonl.rewrite(tmp_path / "steps.jsonl", rows)
    prompts = read_prompts(tmp_path / "steps.jsonl", step_types=("ret", "ans", "final"), sees_images=True)
    text, shown = (verl_row(prompts[index], index, 401408) for index in (0, 3))
    assert text["prompt"] == [
        {"role": "system", "content": "route it"},
        {"role": "user", "content": "Origin question: who?\n"},
    ]
    assert text["images"] == [] and json.loads(text["reward_model"]["ground_truth"]) == ROUTE
    assert shown["prompt"][1]["content"] == "Origin question: who?\n<image>"
    assert shown["images"] == [{"image": str(picture.resolve()), "max_pixels": 401408}]
    assert shown["extra_info"] == {"index": 3, "id": "2-1", "step_type": "ret"}
    assert [verl_row(prompt, 0, 1)["data_source"] for prompt in prompts[:3]] == [
        "steps_ret",
        "steps_ans",
        "steps_final",
    ]


def test_rows_that_verl_would_drop_are_told(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    odd = {"step_type": "ret", "problem": "a <video> of whom?<image>", "system": "s", "answer": ROUTE}
    jsonl.rewrite(tmp_path / "steps.jsonl", [{**rows[1], "steps": [odd]}, {**rows[1], "images": ["gone.png"]}])
    marked, gone, *_ = read_prompts(tmp_path / "steps.jsonl", step_types=("ret", "ans", "final"), sees_images=True)
    for prompt, said in ((marked, "step 1-1: <video>"), (gone, r"step 2-1: no picture .*gone\.png")):
        with pytest.raises(DataError, match=said):
            require_readable([prompt])


def test_scores_are_the_step_rewards_and_every_reply_has_the_same_keys(encoder: str) -> None:
    async def all_at_once() -> list[dict[str, float]]:
        asked = [
            compute_score("", reply, json.dumps(gold), {"step_type": kind}, encoder=encoder)
            for reply, gold, kind in REPLIES
        ]
        return await asyncio.gather(*asked)

    scores = asyncio.run(all_at_once())
    assert [one["score"] for one in scores] == pytest.approx(expected(encoder))
    assert len({tuple(sorted(one)) for one in scores}) == 1
    assert [one["failed_reply"] for one in scores] == [0, 0, 1, 0, 0]
    assert scores[0]["route"] == 0.5 and scores[3]["answer"] == 1.0


def test_targets_tell_what_kind_of_step_they_are_of(encoder: str) -> None:
    replies, targets = [reply for reply, _, _ in REPLIES], [json.dumps(target) for _, target, _ in REPLIES]
    scores = score_steps(replies, targets, ScoreSettings.read(encoder=encoder))
    assert [one["score"] for one in scores] == pytest.approx(expected(encoder))
    cheap = score_steps(replies[:1], targets[:1], ScoreSettings.read(encoder=encoder, options={"retrieval_cost": 0.1}))
    assert cheap[0]["score"] == pytest.approx(scores[0]["score"] - 0.1)
    other = score_steps(replies[:1], targets[:1], ScoreSettings.read(encoder=encoder, retrievers=["atlas"]))
    assert other[0] == {**other[0], "score": 0.0, "failed_reply": 1.0}
