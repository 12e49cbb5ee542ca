"""`r1-router train step-grpo` and `train merge` as a user types them, on a tiny world."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

torch = pytest.importorskip("torch", reason="training needs the extra: pip install 'r1-router[train]'")
pytest.importorskip("trl", reason="training needs the extra: pip install 'r1-router[train]'")

from r1_router import jsonl  # noqa: E402
from r1_router.cli import app  # noqa: E402
from tiny_models import save_tiny_encoder  # noqa: E402
from tiny_policy import save_policy_model, write_steps  # noqa: E402

GRPO: dict[str, Any] = {
    "model": "llm",
    "data": "steps.jsonl",
    "held_out": "steps.jsonl",
    "output": "adapter",
    "group": 4,
    "prompts": 2,
    "updates": 2,
    "max_tokens": 3,
    "held_out_prompts": 4,
    "rank": 4,
    "learning_rate": 0.02,
    "warmup_steps": 0,
    "evaluate_updates": 2,
    "dev": "toy",
    "dev_questions": 2,
    "rewards": {"stop_bonus": 0.1},
    "limits": {"window": 3},
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A config with one source of four passages, three dev questions, and step rows."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    root = tmp_path_factory.mktemp("world")
    save_policy_model(root / "llm")
    save_tiny_encoder(root / "encoder")
    write_steps(root / "steps.jsonl")
    jsonl.rewrite(root / "text.jsonl", [{"id": str(n), "title": "t", "text": f"t. fact {n}"} for n in range(4)])
    questions = [{"id": f"q{n}", "question": "which country", "answers": ["peru"]} for n in range(3)]
    jsonl.rewrite(root / "questions.jsonl", questions)
    source = {"name": "text", "tag": "ter", "purpose": "prose", "encoder": "text"}
    config: dict[str, Any] = {
        "llm": {"name": "tiny", "model": "llm", "engine": "vllm"},  # dev questions are answered in this process
        "sampling": {"max_tokens": 3},
        "encoders": {"text": {"kind": "sentence", "model": "encoder"}},
        "sources": [source | {"passages": "text.jsonl", "folder": "indexes/text"}],
        "benchmarks": {"toy": "questions.jsonl"},
        "training": {"router-grpo": {"kind": "grpo", "grpo": GRPO}},
    }
    (root / "config.yaml").write_text(yaml.safe_dump(config))
    assert command(root, "build").exit_code == 0
    yield root
    torch.set_num_threads(threads)


def command(world: Path, *words: str) -> Result:
    return CliRunner().invoke(app, [*words, "--config", str(world / "config.yaml")])


def test_a_run_evaluates_the_loop_draws_curves_and_merges_to_a_plain_model(world: Path) -> None:
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    result = command(world, "train", "step-grpo")
    assert result.exit_code == 0, result.output
    card = json.loads((world / "adapter/card.json").read_text(encoding="utf-8"))
    assert card["updates"] == 2 and card["settings"]["rewards"]["stop_bonus"] == 0.1
    assert sum("dev/f1_recall" in row for row in card["evaluations"]) == 2
    assert {path.name for path in (world / "adapter/dev").iterdir()} == {"0.jsonl", "2.jsonl"}
    assert len(list(jsonl.read(world / "adapter/dev/2.jsonl"))) == 2
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(world / "adapter/tensorboard")).Reload()
    assert [event.step for event in events.Scalars("reward")] == [1, 2]
    assert [event.step for event in events.Scalars("dev/f1_recall")] == [0, 2]
    assert "The loop on dev questions" in (world / "adapter/curves.html").read_text(encoding="utf-8")

    words = ("train", "merge", "--adapter", str(world / "adapter"), "--output", str(world / "plain"))
    assert "'float8' is not one of" in command(world, *words, "--dtype", "float8").output
    assert command(world, *words).exit_code == 0
    refused = command(world, *words)
    assert refused.exit_code == 1 and "there already" in refused.output
    base = AutoModelForCausalLM.from_pretrained(world / "llm", dtype=torch.float32)
    adapted = PeftModel.from_pretrained(base, str(world / "adapter"))
    merged = AutoModelForCausalLM.from_pretrained(world / "plain", dtype=torch.float32)
    ids = torch.tensor([[3, 8, 9]])
    torch.testing.assert_close(merged(ids).logits, adapted(input_ids=ids).logits)
    assert (world / "plain/tokenizer.json").is_file()


@pytest.mark.parametrize(
    "change, named",
    [
        ({"grup": 4}, "did you mean 'group'"),
        ({"rewards": {"stop_bonus": 3.0}}, "stop_bonus"),
        ({"data": "nowhere.jsonl"}, "nowhere.jsonl"),
    ],
)
def test_a_wrong_config_is_one_line(world: Path, change: dict[str, Any], named: str) -> None:
    config = yaml.safe_load((world / "config.yaml").read_text())
    config["training"]["router-grpo"]["grpo"] = GRPO | {"output": "other", **change}
    (world / "wrong.yaml").write_text(yaml.safe_dump(config))
    result = CliRunner().invoke(app, ["train", "step-grpo", "--config", str(world / "wrong.yaml")])
    assert result.exit_code == 1 and named in result.output


def test_an_adapter_of_another_kind_is_not_trained(world: Path) -> None:
    result = command(world, "train", "step-grpo", "--adapter", "router")
    assert result.exit_code == 1 and "router-grpo" in result.output


def test_each_kind_of_training_needs_its_part(world: Path) -> None:
    config = yaml.safe_load((world / "config.yaml").read_text())
    for kind, missing in (("grpo", "'grpo'"), ("router", "'questions'")):
        config["training"] = {"it": {"kind": kind}}
        (world / "wrong.yaml").write_text(yaml.safe_dump(config))
        result = CliRunner().invoke(app, ["train", "step-grpo", "--config", str(world / "wrong.yaml")])
        assert result.exit_code == 1 and missing in result.output
