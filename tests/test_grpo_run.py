"""Step-GRPO runs of a tiny random policy through TRL, for real: learning, evaluation, kills and resumption."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="training needs the extra: pip install 'r1-router[train]'")
pytest.importorskip("trl", reason="training needs the extra: pip install 'r1-router[train]'")

from one_thread import one_thread as one_thread  # noqa: E402
from r1_router.curves import Curve, plot, points, write_curves  # noqa: E402
from r1_router.errors import ConfigError, DataError, TrainingError  # noqa: E402
from r1_router.training.grpo.config import GrpoConfig  # noqa: E402
from r1_router.training.grpo.run import CHECKPOINTS, Listener, train  # noqa: E402
from r1_router.training.grpo.watchdogs import Limits  # noqa: E402
from tiny_policy import tiny_config, world  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")
WEIGHTS = "adapter_model.safetensors"
KILLED = """
import os, pathlib, signal, sys
from tiny_policy import tiny_config, world
from r1_router.training.grpo.run import Listener, train

def kill(row):
    if row["step"] == 5 and "reward" in row:
        os.kill(os.getpid(), signal.SIGKILL)

train(tiny_config(pathlib.Path(sys.argv[1])), world(), Listener(kill))
"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[GrpoConfig, dict[str, Any]]:
    """An undisturbed run and its card."""
    torch.set_num_threads(1)
    config = tiny_config(tmp_path_factory.mktemp("whole"))
    return config, train(config, world())


def rows_of(config: GrpoConfig) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (config.output / "log.jsonl").read_text(encoding="utf-8").splitlines()]


def measured(config: GrpoConfig) -> list[dict[str, Any]]:
    """The log without what a clock says."""
    clocks = ("seconds", "step_time", "runtime", "per_second")
    return [{key: row[key] for key in row if not key.endswith(clocks)} for row in rows_of(config)]


def test_a_run_leaves_an_adapter_a_card_and_a_row_for_every_update(whole: tuple[GrpoConfig, dict[str, Any]]) -> None:
    config, card = whole
    assert card["updates"] == card["planned_updates"] == 6 and card["prompts"] == 24
    assert [row["step"] for row in rows_of(config) if "reward" in row] == [1, 2, 3, 4, 5, 6]
    assert [row["step"] for row in rows_of(config) if "eval_reward" in row] == [0, 3, 6]
    assert {"reward/query", "reward/route", "reward/failed_reply", "watch/malformed"} <= rows_of(config)[1].keys()
    assert (config.output / WEIGHTS).exists() and (config.output / "adapter_config.json").exists()
    assert not (config.output / CHECKPOINTS).exists()
    assert train(config, world(), Listener(lambda row: pytest.fail("an update was made"))) == card


def test_a_killed_run_goes_on_to_the_same_adapter(whole: tuple[GrpoConfig, dict[str, Any]], tmp_path: Path) -> None:
    undisturbed, card = whole
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], env=environment, check=False)
    assert killed.returncode == -signal.SIGKILL
    config = tiny_config(tmp_path)
    assert {path.name for path in (config.output / CHECKPOINTS).iterdir()} == {"checkpoint-2", "checkpoint-4"}
    again: list[int] = []
    resumed = train(config, world(), Listener(lambda row: again.append(row["step"])))
    assert again == [5, 6, 6]
    assert (config.output / WEIGHTS).read_bytes() == (undisturbed.output / WEIGHTS).read_bytes()
    assert measured(config) == measured(undisturbed)
    assert resumed["evaluations"] == card["evaluations"]


def test_other_settings_or_data_do_not_resume_a_checkpoint(tmp_path: Path) -> None:
    train(tiny_config(tmp_path, max_minutes=1e-9), world())
    with pytest.raises(DataError, match="other settings or data"):
        train(tiny_config(tmp_path, seed=1), world())


def test_a_run_out_of_time_stops_and_goes_on_with_more(
    whole: tuple[GrpoConfig, dict[str, Any]], tmp_path: Path
) -> None:
    stopped = train(tiny_config(tmp_path, max_minutes=1e-9), world())
    assert stopped["updates"] == 1 and stopped["planned_updates"] == 6
    assert train(tiny_config(tmp_path), world())["updates"] == 6
    config, _ = whole
    assert (config.output / WEIGHTS).read_bytes() != b"" and (tmp_path / "out" / WEIGHTS).exists()


def test_the_weights_that_do_best_on_dev_questions_are_kept(tmp_path: Path) -> None:
    """Scores are said to peak at update 3; its weights are what the run delivers, the last ones beside them."""
    seen: dict[int, bytes] = {}

    def evaluate(weights: Path, step: int) -> dict[str, float]:
        seen[step] = (weights / WEIGHTS).read_bytes()
        return {"f1_recall": {0: 0.2, 3: 0.9, 6: 0.5}[step]}

    card = train(tiny_config(tmp_path), world(evaluate=evaluate))
    output = tmp_path / "out"
    assert card["best"] == 3 and [row["dev/f1_recall"] for row in card["evaluations"] if "dev/f1_recall" in row] == [
        0.2, 0.9, 0.5,
    ]  # fmt: skip
    assert (output / WEIGHTS).read_bytes() == seen[3] != seen[0]
    assert (output / "last" / WEIGHTS).read_bytes() == seen[6] != seen[3]
    assert not (output / "kept").exists()


def test_reward_rises_where_there_is_something_to_learn(tmp_path: Path) -> None:
    """Final steps only: `peru` is right. A random policy says it now and then, a trained one most of the time."""
    settings = {"step_types": ("final",), "group": 8, "updates": 30, "learning_rate": 0.03, "evaluate_updates": 0}
    card = train(tiny_config(tmp_path, **settings), world())
    assert card["final_reward"] > 0.95 and rows_of(tiny_config(tmp_path))[0]["reward"] < 0.3


@pytest.mark.parametrize(
    "settings",
    [
        {"beta": 0.1},
        {"updates_per_rollout": 2, "epsilon_high": 0.28},
        {"loss": "luspo"},
        {"lora": False, "learning_rate": 1e-3, "rank": 1},
        {"engine": "transformers", "gradient_checkpointing": True},
    ],
    ids=str,
)
def test_the_variants_run(tmp_path: Path, settings: dict[str, Any]) -> None:
    config = tiny_config(tmp_path, updates=2, group=8, evaluate_updates=0, **settings)
    assert train(config, world())["updates"] == 2
    assert any(row["grad_norm"] > 0 for row in rows_of(config))
    assert (config.output / ("model.safetensors" if not config.lora else WEIGHTS)).exists()


def test_gradients_that_are_no_numbers_change_nothing_and_too_many_stop_the_run(tmp_path: Path) -> None:
    from r1_router.training.grpo.assembly import build_trainer, fitting_prompts, step_rewards_of
    from r1_router.training.grpo.record import Record, Watch
    from r1_router.training.grpo.trainer import Hooks
    from r1_router.training.model import load_processor

    config = tiny_config(tmp_path, evaluate_updates=0, held_out=None, limits=Limits(skipped=2))
    processor = load_processor(config.model)
    fitted, _ = fitting_prompts(config, processor)
    rewards = step_rewards_of(config, world(), processor)
    hooks = Hooks(lambda *_: None, lambda folder: None)
    trainer = build_trainer(
        config,
        rewards,
        processor,
        (fitted.prompts, ()),
        world(),
        hooks,
        tmp_path / "folder",
        device="cpu",
        resumed=False,
    )
    after: dict[int, float] = {}
    watched = [weight for weight in trainer.model.parameters() if weight.requires_grad]

    def remember(row: Any) -> None:
        after[row["step"]] = sum(float(weight.detach().abs().sum()) for weight in watched)

    watched[0].register_hook(lambda grad: grad if trainer.state.global_step < 1 else grad * float("nan"))
    told: list[str] = []
    trainer.add_callback(Watch(config, Record(tmp_path / "log.jsonl", 0, remember), told.append))
    with pytest.raises(TrainingError, match=r"update 4.*limits\.skipped 2.*learning_rate"):
        trainer.train()
    assert after[1] == after[2] == after[3] == after[4] and len(told) == 2


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    config = tiny_config(tmp_path)
    with pytest.raises(ConfigError, match="train sft"):
        train(dataclasses.replace(config, adapter=tmp_path), world())
    with pytest.raises(ConfigError, match="synthesize"):
        train(dataclasses.replace(config, data=tmp_path / "none.jsonl"), world())
    config.data.write_text("", encoding="utf-8")
    with pytest.raises(DataError, match="none of 0 steps"):
        train(config, world())


def test_several_processes_are_sent_to_verl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigError, match="--engine verl"):
        train(tiny_config(tmp_path), world())


def test_curves_are_drawn_of_what_the_log_has(whole: tuple[GrpoConfig, dict[str, Any]], tmp_path: Path) -> None:
    config, _ = whole
    page = tmp_path / "curves.html"
    write_curves(config.output / "log.jsonl", page)
    text = page.read_text(encoding="utf-8")
    assert "held-out steps" in text and "Groups without spread" in text and "dev questions" not in text
    rows: list[dict[str, float]] = [
        {"step": 1, "reward": 0.0},
        {"step": 2, "reward": 1.0},
        {"step": 2, "eval_reward": 3.0},
    ]
    assert points(rows, Curve("reward", "")) == [(1.0, 0.0), (2.0, 0.5)]
    assert points(rows, Curve("eval_reward", "", evaluated=True)) == [(2.0, 3.0)]
    assert plot("none", [(Curve("reward", ""), [])]) == ""
