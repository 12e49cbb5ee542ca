"""verl itself on our config, rows and reward, as far as a CPU goes; skipped where it is not installed."""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from r1_router import jsonl
from r1_router.errors import ConfigError
from r1_router.training.verl import compose, verl_command, write_files
from verl_samples import CONFIG, REPLIES, expected
from verl_samples import encoder as encoder
from verl_samples import picture as picture
from verl_samples import rows as rows

for package in ("verl", "hydra"):  # EasyR1's package is called verl too, and has no hydra
    pytest.importorskip(package, reason="verl is not installed: pip install verl==0.9.1")


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


def test_verl_starts_by_the_command_as_it_is_printed() -> None:
    """`--cfg job` makes verl print the config it would train with, and end."""
    done = subprocess.run([*verl_command(CONFIG, ["trainer.n_gpus_per_node=4"]), "--cfg", "job"], capture_output=True)
    printed = yaml.safe_load(done.stdout)
    assert done.returncode == 0, done.stderr.decode()
    assert printed["trainer"]["n_gpus_per_node"] == 4 and printed["algorithm"]["adv_estimator"] == "grpo"


def test_a_key_that_verl_does_not_have_is_told() -> None:
    with pytest.raises(ConfigError, match="n_gpu"):
        compose(CONFIG, ["trainer.n_gpu=4"])


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
