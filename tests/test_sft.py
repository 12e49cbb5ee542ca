"""Training on step rows: a tiny Llama with random weights, trained for real."""

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
pytest.importorskip("peft", reason="training needs the extra: pip install 'r1-router[train]'")

from one_thread import one_thread as one_thread  # noqa: E402
from r1_router.errors import ConfigError, DataError  # noqa: E402
from r1_router.training.data import epoch_batches, load_examples, pad  # noqa: E402
from r1_router.training.sft import CHECKPOINT, LOG, SftConfig, learning_rate, train  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")
WORDS = [
    "which",
    "country",
    "does",
    "the",
    "flag",
    "show",
    "ask",
    "text",
    "table",
    "none",
    "Peru",
    "Chad",
    "Oman",
    "Mali",
]
TEMPLATE = (
    "{% for message in messages %}<s> {{ message.role }} {{ message.content }} <e> {% endfor %}"
    "{% if add_generation_prompt %}<s> assistant {% endif %}"
)


KILLED = """
import os, signal, sys
from pathlib import Path
from r1_router.training.sft import SftConfig, train

def kill(row):
    if row.step == 5:
        os.kill(os.getpid(), signal.SIGKILL)

lora, *paths = sys.argv[1:]
settings = dict(rank=4, alpha=8, batch_size=3, epochs=2, warmup_steps=2, checkpoint_steps=2)
train(SftConfig(*map(Path, paths), lora=lora == "lora", **settings), kill)
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a two-layer Llama (grouped heads, tied head) and a word tokenizer."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("model")
    vocabulary = {word: n for n, word in enumerate(["<u>", "<s>", "<e>", "system", "user", "assistant", *WORDS])}
    words = Tokenizer(models.WordLevel(vocabulary, unk_token="<u>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    words.add_special_tokens(["<s>", "<e>"])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, unk_token="<u>", eos_token="<e>")
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "head_dim": 8}
    heads = {
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "tie_word_embeddings": True,
        "eos_token_id": 2,
        "initializer_range": 0.3,
    }
    torch.manual_seed(0)
    LlamaForCausalLM(LlamaConfig(vocab_size=len(vocabulary), **sizes, **heads)).save_pretrained(folder)
    return folder


@pytest.fixture
def config(model: Path, tmp_path: Path) -> SftConfig:
    """Two epochs over 8 rows of unequal length, in batches of 3."""
    data = tmp_path / "rows.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in step_rows()), encoding="utf-8")
    return SftConfig(model, data, tmp_path / "out", rank=4, alpha=8, batch_size=3, epochs=2, warmup_steps=2)


def step_rows() -> list[dict[str, Any]]:
    """Eight rows whose completion repeats the question's last word, then names a source."""
    asked = [" ".join(WORDS[: 3 + n % 4]) + " " + WORDS[-1 - n % 6] for n in range(8)]
    return [
        {
            "id": str(n),
            "messages": [{"role": "system", "content": "ask"}, {"role": "user", "content": text}],
            "completion": f"{text.split()[-1]} {'text' if n % 2 else 'table'}",
        }
        for n, text in enumerate(asked)
    ]


def test_overfits_eight_rows_and_writes_what_peft_loads(config: SftConfig) -> None:
    from peft import PeftModel
    from transformers import AutoModelForCausalLM, AutoTokenizer

    card = train(dataclasses.replace(config, batch_size=8, epochs=250, learning_rate=0.01, rank=16, alpha=32))
    assert card["final_loss"] < 0.05
    tokenizer = AutoTokenizer.from_pretrained(config.model)
    tuned = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(config.model), config.output)
    examples, _ = load_examples(config.data, tokenizer, 512)
    for example in examples:
        prompt = torch.tensor([example.ids[: example.prompt_length]])
        reply = tuned.generate(input_ids=prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=5)
        assert tuple(reply[0].tolist()) == example.ids


@pytest.mark.parametrize(
    "lora, files", [(True, ("adapter_model.safetensors", "adapter_config.json")), (False, ("model.safetensors",))]
)
def test_a_killed_run_resumes_to_the_same_bytes(config: SftConfig, lora: bool, files: tuple[str, ...]) -> None:
    config = dataclasses.replace(config, lora=lora, checkpoint_steps=2)
    whole = dataclasses.replace(config, output=config.output / "whole")
    train(whole)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    paths = [str(path) for path in (config.model, config.data, config.output)]
    words = ["lora" if lora else "all", *paths]
    killed = subprocess.run([sys.executable, "-c", KILLED, *words], env=environment, check=False)
    assert killed.returncode == -signal.SIGKILL
    steps: list[int] = []
    card = train(config, lambda row: steps.append(row.step))
    assert steps == [5, 6]  # step 5 came after the last checkpoint, so it is taken again
    for name in files:
        assert (config.output / name).read_bytes() == (whole.output / name).read_bytes()
    assert losses(config) == losses(whole) and card["steps"] == len(losses(config)) == 6
    assert not (config.output / CHECKPOINT).exists()


def test_all_weights_are_trained_to_a_model_of_its_own(config: SftConfig) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    card = train(dataclasses.replace(config, lora=False, batch_size=8, epochs=150, learning_rate=0.01))
    assert card["final_loss"] < 0.05
    tokenizer, tuned = AutoTokenizer.from_pretrained(config.output), AutoModelForCausalLM.from_pretrained(config.output)
    example = load_examples(config.data, tokenizer, 512)[0][0]
    prompt = torch.tensor([example.ids[: example.prompt_length]])
    reply = tuned.generate(input_ids=prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=5)
    assert tuple(reply[0].tolist()) == example.ids


@pytest.mark.parametrize("lora", [True, False])
def test_gradient_checkpointing_changes_no_weight(config: SftConfig, lora: bool) -> None:
    config = dataclasses.replace(config, lora=lora)
    train(config)
    sparing = dataclasses.replace(config, output=config.output / "sparing", gradient_checkpointing=True)
    train(sparing)
    assert losses(sparing) == pytest.approx(losses(config), rel=1e-5)


def test_a_finished_run_is_not_run_again(config: SftConfig) -> None:
    card = train(config)
    assert train(config, lambda row: pytest.fail("a step was taken")) == card


def test_a_capped_run_stops_and_goes_on_with_a_higher_cap(config: SftConfig) -> None:
    assert train(dataclasses.replace(config, max_minutes=1e-9))["steps"] == 1
    assert train(config)["steps"] == 6


def test_other_data_does_not_resume_a_checkpoint(config: SftConfig) -> None:
    train(dataclasses.replace(config, max_minutes=1e-9))
    with pytest.raises(DataError, match="other settings or data"):
        train(dataclasses.replace(config, seed=1))


def test_rows_over_length_are_dropped_and_counted(config: SftConfig) -> None:
    lengths = [len(example.ids) for example in examples_of(config)]
    card = train(dataclasses.replace(config, max_length=min(lengths)))
    assert card["rows"] == lengths.count(min(lengths)) > 0
    assert card["rows"] + card["rows_too_long"] == 8
    with pytest.raises(DataError, match="max_length"):
        train(dataclasses.replace(config, max_length=3))


@pytest.mark.parametrize("dtype, tolerance", [("float32", 1e-4), ("bfloat16", 0.15)])
def test_loss_and_gradients_are_those_of_peft_on_completion_tokens(
    config: SftConfig, dtype: str, tolerance: float
) -> None:
    """Against full logits, one row at a time without padding, through peft's own layers and torch's attention."""
    from r1_router.training.model import completion_loss, load_model

    fast = load_model(dataclasses.replace(config, dtype=dtype))
    slow = plain_model(config)
    for ours, theirs in zip(trained(fast), trained(slow), strict=True):
        with torch.no_grad():
            theirs.copy_(ours.add_(0.1 * torch.randn_like(ours)))  # B starts at 0, which would hide A's gradient
    examples = examples_of(config)
    loss = completion_loss(fast, pad(examples, 2))
    loss.backward()
    sums, tokens = torch.zeros(()), 0
    for example in examples:
        ids = torch.tensor([example.ids])
        predicted, target = slow(input_ids=ids).logits[0, :-1], ids[0, 1:]
        at = slice(example.prompt_length - 1, None)
        sums = sums + torch.nn.functional.cross_entropy(predicted[at], target[at], reduction="sum")
        tokens += len(target[at])
    expected = sums / tokens
    expected.backward()
    assert tokens == 8 * 3  # two words and the end of the turn
    assert loss.item() == pytest.approx(expected.item(), rel=tolerance)
    for ours, theirs in zip(trained(fast), trained(slow), strict=True):
        assert ours.grad.dtype == torch.float32
        assert torch.linalg.norm(ours.grad - theirs.grad) <= tolerance * torch.linalg.norm(theirs.grad)


def test_batches_hold_every_row_once_by_length_and_depend_on_seed_and_epoch_only() -> None:
    lengths = [10 + (7 * n) % 90 for n in range(101)]
    batches = epoch_batches(lengths, 8, seed=1, epoch=0)
    assert sorted(index for batch in batches for index in batch) == list(range(101))
    assert max(max(lengths[i] for i in batch) - min(lengths[i] for i in batch) for batch in batches) < 15
    assert batches == epoch_batches(lengths, 8, seed=1, epoch=0)
    assert batches != epoch_batches(lengths, 8, seed=1, epoch=1) != epoch_batches(lengths, 8, seed=2, epoch=1)


def test_the_rate_rises_then_falls_to_its_floor(config: SftConfig) -> None:
    rates = [learning_rate(config, step, 100) for step in range(100)]
    assert rates[0] == config.learning_rate / 2 and max(rates) == rates[2] == config.learning_rate
    assert rates[2:] == sorted(rates[2:], reverse=True)
    assert rates[-1] == pytest.approx(config.learning_rate * config.final_rate)


def test_bad_settings_and_rows_are_named(config: SftConfig) -> None:
    with pytest.raises(ConfigError, match="float64"):
        train(dataclasses.replace(config, dtype="float64"))
    with pytest.raises(ConfigError, match="no model"):
        train(dataclasses.replace(config, model=config.output))
    config.data.write_text('{"messages": []}\n', encoding="utf-8")
    with pytest.raises(DataError, match="row 1"):
        train(config)


def test_a_vision_model_learns_from_rows_with_and_without_pictures(tmp_path: Path) -> None:
    """What it is shown reaches the loss, which is that of the library's own forward pass."""
    from PIL import Image

    from r1_router.training.data import with_pictures
    from r1_router.training.model import completion_loss, load_model, load_processor
    from tiny_models import save_tiny_vision_model

    model = save_tiny_vision_model(tmp_path / "vision")
    Image.new("RGB", (56, 28), "red").save(tmp_path / "flag.png")
    shown = [{"type": "text", "text": "whose flag?"}, {"type": "image", "image": "flag.png"}]
    rows = [
        {"messages": [{"role": "user", "content": content}], "completion": "Peru"} for content in (shown, "which flag?")
    ]
    data = tmp_path / "rows.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    config = SftConfig(model, data, tmp_path / "out", rank=2, alpha=4, batch_size=2, epochs=3, warmup_steps=0)
    processor, policy = load_processor(model), load_model(config)
    examples, _ = load_examples(data, processor, 512)
    batch = with_pictures(pad(examples, 0), examples, processor)
    ours, blind = completion_loss(policy, batch), completion_loss(policy, pad(examples, 0))
    logits = policy.get_base_model()(input_ids=batch.ids, **batch.seen).logits
    expected = torch.nn.functional.cross_entropy(logits[batch.rows, batch.columns], batch.targets)
    assert ours.item() == pytest.approx(expected.item(), rel=1e-4) and ours.item() != pytest.approx(blind.item())
    assert train(config)["steps"] == 3
    whole = load_model(dataclasses.replace(config, lora=False))
    assert {"visual" in name for name, one in whole.named_parameters() if not one.requires_grad} == {True}
    saved = json.loads((config.output / "adapter_config.json").read_text(encoding="utf-8"))
    assert "qkv" not in saved["target_modules"] or saved["exclude_modules"]


def examples_of(config: SftConfig) -> Any:
    from transformers import AutoTokenizer

    return load_examples(config.data, AutoTokenizer.from_pretrained(config.model), 512)[0]


def plain_model(config: SftConfig) -> Any:
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    lora = LoraConfig(r=config.rank, lora_alpha=config.alpha, target_modules="all-linear", task_type="CAUSAL_LM")
    return get_peft_model(AutoModelForCausalLM.from_pretrained(config.model, dtype=torch.float32), lora)


def trained(model: Any) -> list[Any]:
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def losses(config: SftConfig) -> list[float]:
    return [json.loads(line)["loss"] for line in (config.output / LOG).read_text(encoding="utf-8").splitlines()]
