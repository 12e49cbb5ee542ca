"""Step-GRPO of a tiny random Qwen2.5-VL on rows with and without pictures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="training needs the extra: pip install 'r1-router[train]'")
pytest.importorskip("trl", reason="training needs the extra: pip install 'r1-router[train]'")

from one_thread import one_thread as one_thread  # noqa: E402
from r1_router.training.grpo.assembly import as_dataset  # noqa: E402
from r1_router.training.grpo.config import GrpoConfig  # noqa: E402
from r1_router.training.grpo.prompts import read_prompts  # noqa: E402
from r1_router.training.grpo.run import train  # noqa: E402
from r1_router.training.grpo.trainer import trl_settings  # noqa: E402
from r1_router.training.model import load_processor  # noqa: E402
from tiny_models import save_tiny_vision_model  # noqa: E402
from tiny_policy import REPLIES, world  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that writes whole replies now and then, as single tokens of its own."""
    from transformers import AutoTokenizer, Qwen2_5_VLForConditionalGeneration

    folder = save_tiny_vision_model(tmp_path_factory.mktemp("vision"))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_tokens(REPLIES)
    tokenizer.save_pretrained(folder)
    weights = Qwen2_5_VLForConditionalGeneration.from_pretrained(folder, dtype=torch.float32)
    with torch.no_grad():
        weights.lm_head.weight[tokenizer.convert_tokens_to_ids(REPLIES)] *= 50
    weights.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two trajectories with a picture, its path from the rows' folder, and two without."""
    from PIL import Image

    folder = tmp_path_factory.mktemp("rows")
    Image.new("RGB", (56, 28), "red").save(folder / "flag.png")
    rows = []
    for images, mark in ((["flag.png"], "<image>"), ([], "")):
        route = {"query": "who", "retriever": ["text"]}
        steps = [
            {"step_type": "ret", "system": "plan", "problem": f"Origin question: x\n{mark}", "answer": route},
            {"step_type": "ans", "system": "answer", "problem": f"Origin question: x y\n{mark}", "answer": ["peru"]},
        ]
        rows += [{"images": images, "steps": steps}] * 2
    path = folder / "steps.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def config_of(model: Path, data: Path, output: Path, **settings: Any) -> GrpoConfig:
    sizes = {"group": 4, "prompts": 2, "updates": 4, "max_tokens": 4, "rank": 2, "alpha": 4}
    rest = {"held_out": data, "held_out_prompts": 4, "evaluate_updates": 4, "checkpoint_updates": 4}
    return GrpoConfig(model, data, output, **{**sizes, **rest, **settings})


def test_pictures_reach_the_data_and_rows_without_one_have_none(model: Path, data: Path) -> None:
    prompts = read_prompts(data, step_types=("ret", "final"), sees_images=True)
    rows = as_dataset(prompts, vision=True)
    assert [len(row["images"]) for row in rows] == [1, 1, 1, 1, 0, 0, 0, 0]
    assert rows[0]["images"][0].size == (56, 28)
    assert [part["type"] for part in rows[0]["prompt"][1]["content"]] == ["text", "image"]
    assert load_processor(model).tokenizer.padding_side == "left"


def test_a_vision_model_trains_on_both_kinds_of_rows(model: Path, data: Path, tmp_path: Path) -> None:
    config = config_of(model, data, tmp_path / "out")
    card = train(config, world())
    rows = [json.loads(line) for line in (config.output / "log.jsonl").read_text().splitlines()]
    assert card["updates"] == 4 and card["prompts"] == 8
    assert [row["step"] for row in rows if "reward" in row] == [1, 2, 3, 4]
    assert [row["step"] for row in rows if "eval_reward" in row] == [0, 4]
    assert sum(row["grad_norm"] > 0 for row in rows if "reward" in row) >= 2
    assert (config.output / "adapter_model.safetensors").exists()


class Vllm:
    """In the place of TRL's hold on vLLM: writes the replies by turns; keeps what it was made of, asked and given."""

    def __init__(self, *, model: Any, processing_class: Any, **options: Any) -> None:
        self.model, self.options = model, options
        self.generation_kwargs: dict[str, Any] = {}
        self.asked: list[tuple[list[int], Any]] = []
        self.given: list[dict[str, Any]] = []
        tokenizer = processing_class.tokenizer
        self._replies = [[tokenizer.convert_tokens_to_ids(reply), tokenizer.eos_token_id] for reply in REPLIES]

    def _iter_named_params(self) -> Any:
        raise AssertionError("the trainer has its own")

    def sync_weights(self) -> None:
        self.given.append({name: value.clone() for name, value in self._iter_named_params()})

    def generate(self, prompts: list[list[int]], images: Any, **_: Any) -> tuple[Any, ...]:
        self.asked += zip(prompts, images or [None] * len(prompts), strict=True)
        replies = [self._replies[number % len(self._replies)] for number in range(len(prompts))]
        return prompts, replies, [[[-1.0]] * len(reply) for reply in replies], None


def test_vllm_is_asked_with_one_mark_a_picture_and_given_merged_weights(
    model: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import AutoTokenizer, Qwen2_5_VLForConditionalGeneration

    made: list[Vllm] = []

    def make(**options: Any) -> Vllm:
        made.append(Vllm(**options))
        return made[-1]

    monkeypatch.setattr("trl.trainer.grpo_trainer.VLLMGeneration", make)
    asked = {"engine": "vllm", "dtype": "bfloat16", "learning_rate": 0.1, "warmup_steps": 0, "evaluate_updates": 0}
    train(config_of(model, data, tmp_path / "out", **asked), world())
    (vllm,) = made
    mark, end = AutoTokenizer.from_pretrained(model).convert_tokens_to_ids(["<|image_pad|>", "<|im_end|>"])
    assert {ids.count(mark) for ids, images in vllm.asked if images} == {1}
    assert {ids.count(mark) for ids, images in vllm.asked if not images} == {0}
    assert vllm.options["max_model_length"] == 1024 + 4 and vllm.options["gpu_memory_utilization"] == 0.3
    biased = vllm.generation_kwargs["logit_bias"]
    assert mark in biased and end not in biased

    base = Qwen2_5_VLForConditionalGeneration.from_pretrained(model, dtype=torch.bfloat16).state_dict()
    first, last = vllm.given[0], vllm.given[-1]
    assert first.keys() <= base.keys() and not any("visual" in name for name in first)
    assert all(torch.equal(value, base[name]) for name, value in first.items())
    assert not all(torch.equal(value, base[name]) for name, value in last.items())
    kept = {name.replace(".base_layer", ""): value for name, value in vllm.model.get_base_model().named_parameters()}
    assert all(torch.equal(kept[name], base[name]) for name in first)


@pytest.mark.parametrize(("top_k", "corrected"), [(20, False), (0, True)])
def test_vllms_deviation_is_corrected_where_it_draws_from_all_tokens(
    model: Path, data: Path, tmp_path: Path, top_k: int, corrected: bool
) -> None:
    config = config_of(model, data, tmp_path, engine="vllm", top_k=top_k)
    settings = trl_settings(config, tmp_path, "cpu", resumed=False)
    assert settings.vllm_importance_sampling_correction is corrected
