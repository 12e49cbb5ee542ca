"""Step-GRPO by verl: its rows, its reward, its command, and, where it is installed, verl itself."""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from r1_router import jsonl
from r1_router.cli import app
from r1_router.errors import ConfigError, DataError, MissingDependency
from r1_router.replies import format_answer, format_plan
from r1_router.rewards import Sample, step_rewards
from r1_router.training.grpo.prompts import read_prompts
from r1_router.training.verl import compose, launch, verl_command, write_files
from r1_router.training.verl_reward import ScoreSettings, compute_score, score_steps
from r1_router.training.verl_rows import require_readable, verl_row
from r1_router.types import TABLE, TEXT

CONFIG = Path(__file__).parents[1] / "configs" / "verl_stepgrpo.yaml"
HAS_VERL = find_spec("verl") is not None and find_spec("hydra") is not None
needs_verl = pytest.mark.skipif(not HAS_VERL, reason="verl is not installed: pip install verl==0.9.1")
ROUTE = {"query": "who was it?", "retriever": [TEXT.name]}
REPLIES = [
    (format_plan("t", "who was it?", TEXT.name), ROUTE, "ret"),
    (format_plan("t", "who is he?", TABLE.name), ROUTE, "ret"),
    ("no tags", ROUTE, "ret"),
    (format_answer("t", "jan zizka"), "jan zizka", "ans"),
    (format_answer("t", "someone else"), ["jan zizka", "zizka"], "final"),
]


@pytest.fixture(scope="module")
def picture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from PIL import Image

    path = tmp_path_factory.mktemp("pictures") / "flag.png"
    Image.new("RGB", (120, 90), "red").save(path)
    return path


@pytest.fixture(scope="module")
def rows(picture: Path) -> list[dict[str, Any]]:
    """A text-only trajectory and one with a picture, the evidence of the latter too long for a short prompt."""
    passages = "".join(f"ter-{n}: {'word ' * 40}\n" for n in range(3))
    steps: list[dict[str, Any]] = [
        {"step_type": "ret", "problem": "Origin question: who?\n", "system": "route it", "answer": ROUTE},
        {"step_type": "ans", "problem": f"{passages}\n\nQuestion: who?", "system": "answer it", "answer": "jan zizka"},
        {"step_type": "ans", "problem": "Origin question: who?\n", "system": "end it", "answer": ["jan zizka"]},
    ]
    shown = [{**step, "problem": step["problem"] + "<image>"} for step in steps]
    return [{"images": [], "steps": steps}, {"images": [str(picture)], "steps": shown}]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    pytest.importorskip("sentence_transformers", reason="the encoder needs sentence-transformers")
    from tiny_models import save_tiny_encoder

    return str(save_tiny_encoder(tmp_path_factory.mktemp("encoder")))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    pytest.importorskip("transformers", reason="the tokenizer needs transformers")
    from tiny_models import save_tiny_vision_model

    return str(save_tiny_vision_model(tmp_path_factory.mktemp("model")))


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]], encoder: str, model: str) -> Any:
    """The whole config as real verl composes it, over the small models, with its files written."""
    folder = tmp_path_factory.mktemp("run")
    jsonl.rewrite(folder / "steps.jsonl", rows)
    given = {
        "steps.train": folder / "steps.jsonl",
        "steps.valid": folder / "steps.jsonl",
        "data.train_files": folder / "train.parquet",
        "data.val_files": folder / "valid.parquet",
        "data.max_prompt_length": 500,  # the tiny tokenizer's tokens are letters
        "actor_rollout_ref.model.path": model,
        "reward.custom_reward_function.reward_kwargs.encoder": encoder,
    }
    composed = compose(CONFIG, [f"{key}={value}" for key, value in given.items()])
    assert write_files(composed)[0].endswith("6 prompts, 2 lost passages, 0 dropped")
    return composed


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


@pytest.mark.skipif(HAS_VERL, reason="verl is installed")
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
    for prompt, said in ((marked, "step 1-1: <video>"), (gone, r"step 2-1: no picture gone\.png")):
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


def expected(encoder: str) -> list[float]:
    """The rewards by the library itself."""
    from r1_router.retrieval.encoders import SentenceEncoder

    samples = [Sample(reply, target, kind) for reply, target, kind in REPLIES]
    return [reward.total for reward in step_rewards(samples, encoder=SentenceEncoder(encoder, device="cpu"))]


@needs_verl
def test_verl_accepts_the_config(settings: Any) -> None:
    from verl.trainer.ppo.utils import need_critic, need_reference_policy
    from verl.utils.config import omega_conf_to_dataclass, validate_config

    assert not need_reference_policy(settings) and not need_critic(settings)
    validate_config(settings, use_reference_policy=False, use_critic=False)
    actor, rollout = settings.actor_rollout_ref.actor, settings.actor_rollout_ref.rollout
    for section in (rollout, settings.actor_rollout_ref.model):
        omega_conf_to_dataclass(section)  # which knows no key but its own
    assert (actor.optim.lr, actor.clip_ratio, rollout.n, settings.data.max_response_length) == (1e-6, 0.2, 5, 1024)
    assert (rollout.response_length, settings.trainer.n_gpus_per_node) == (1024, 8)


@needs_verl
def test_verl_starts_by_the_command_as_it_is_printed() -> None:
    """`--cfg job` makes verl print the config it would train with, and end."""
    done = subprocess.run([*verl_command(CONFIG, ["trainer.n_gpus_per_node=4"]), "--cfg", "job"], capture_output=True)
    printed = yaml.safe_load(done.stdout)
    assert done.returncode == 0, done.stderr.decode()
    assert printed["trainer"]["n_gpus_per_node"] == 4 and printed["algorithm"]["adv_estimator"] == "grpo"


@needs_verl
def test_a_key_that_verl_does_not_have_is_told() -> None:
    with pytest.raises(ConfigError, match="n_gpu"):
        compose(CONFIG, ["trainer.n_gpu=4"])


@needs_verl
def test_verl_reads_the_rows_with_system_prompts_and_pictures(settings: Any, model: str, picture: Path) -> None:
    dataset = list(verl_dataset(settings, model))
    assert len(dataset) == 6  # none was dropped as too long by verl's own count
    text, shown = dataset[0], dataset[3]
    assert text["raw_prompt"][0] == {"role": "system", "content": "route it"}
    assert text["raw_prompt"][1]["content"] == "Origin question: who?\n"  # no dummy picture
    assert shown["raw_prompt"][1]["content"] == [
        {"type": "text", "text": "Origin question: who?\n"},
        {"type": "image", "image": str(picture.resolve()), "max_pixels": 401408},
    ]
    answer = dataset[1]["raw_prompt"][1]["content"]
    assert answer.startswith("ter-0: ") and "ter-2" not in answer and answer.endswith("Question: who?")


@needs_verl
def test_verl_loads_the_reward_and_asks_for_it(settings: Any, model: str, encoder: str) -> None:
    """Its reward worker's manager, over rows of its own data set, many at once."""
    from verl.trainer.ppo.reward import load_reward_manager
    from verl.utils.tokenizer import hf_tokenizer

    tokenizer = hf_tokenizer(model)

    async def all_at_once() -> list[dict[str, Any]]:
        manager = load_reward_manager(settings, tokenizer)
        return await asyncio.gather(*(manager.run_single(rollout(tokenizer, *reply)) for reply in REPLIES))

    results = asyncio.run(all_at_once())
    assert [one["reward_score"] for one in results] == pytest.approx(expected(encoder))
    assert results[1]["reward_extra_info"]["route"] == 0.0 and results[2]["reward_extra_info"]["failed_reply"] == 1.0


@needs_verl
def test_verl_weighs_a_group_as_the_reference_does(encoder: str) -> None:
    import numpy as np
    import torch
    from verl.trainer.ppo.core_algos import compute_grpo_outcome_advantage

    rewards = expected(encoder)
    groups = [rewards, [1.0, 0.0, 0.0, 1.0, 1.0], [0.5] * 5]  # the last has no spread, and teaches nothing
    flat = torch.tensor(groups).reshape(-1, 1)
    index = np.repeat(["a", "b", "c"], 5)
    advantages, _ = compute_grpo_outcome_advantage(flat.clone(), torch.ones_like(flat), index)
    assert advantages.flatten().tolist() == pytest.approx(
        [one for group in groups for one in advantage(group)], abs=1e-5
    )


def advantage(group: list[float]) -> list[float]:
    """GRPO's advantage, with the deviation of a sample."""
    mean, deviation = statistics.mean(group), statistics.stdev(group)
    return [(reward - mean) / (deviation + 1e-6) for reward in group]


def verl_dataset(settings: Any, model: str) -> Iterator[dict[str, Any]]:
    """The training file through verl's own class and processor."""
    from verl.utils.dataset.rl_dataset import get_dataset_class
    from verl.utils.tokenizer import hf_processor, hf_tokenizer

    made = get_dataset_class(settings.data)(
        settings.data.train_files, hf_tokenizer(model), settings.data, hf_processor(model)
    )
    return (made[index] for index in range(len(made)))


def rollout(tokenizer: Any, reply: str, target: Any, kind: str) -> Any:
    """One sampled reply as verl's agent loop hands it to a reward worker."""
    import numpy as np
    import torch
    from tensordict import TensorDict
    from verl import DataProto

    ids = torch.tensor([tokenizer(reply, add_special_tokens=False)["input_ids"] + [tokenizer.eos_token_id]])
    extra = {"index": 0, "id": "1-1", "step_type": kind}
    columns = {
        "data_source": f"steps_{kind}",
        "reward_model": {"ground_truth": json.dumps(target)},
        "extra_info": extra,
    }
    batch = TensorDict({"responses": ids, "attention_mask": torch.ones_like(ids)}, batch_size=1)
    return DataProto(
        batch=batch, non_tensor_batch={key: np.array([value], dtype=object) for key, value in columns.items()}
    )
