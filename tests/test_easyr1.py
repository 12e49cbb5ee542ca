"""What Easy-R1/ lays over EasyR1: its flags, and, where R1_ROUTER_EASYR1 names a clone, EasyR1's own code on it.

Not run here, for they need a GPU's packages: its trainer, workers and rollouts (vLLM, flash-attn).
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from r1_router.replies import format_answer, format_plan
from r1_router.synthesis.flat import write_flat
from r1_router.types import TEXT

ROOT = Path(__file__).parents[1]
CLONE = os.environ.get("R1_ROUTER_EASYR1", "")
SETUP, RUN = ROOT / "scripts" / "setup_easyr1.sh", "examples/run_qwen2_5_vl_7b_stepgrpo.sh"
MARKS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>"]
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.content is string %}{{ m.content }}{% else %}"
    "{% for p in m.content %}{% if p.type == 'image' %}<|vision_start|><|image_pad|><|vision_end|>"
    "{% else %}{{ p.text }}{% endif %}{% endfor %}{% endif %}<|im_end|>\n{% endfor %}<|im_start|>assistant"
)
ROUTE = {"query": "who was it?", "retriever": [TEXT.name]}


def bash(*arguments: str | Path, **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", *map(str, arguments)], capture_output=True, text=True, env={**os.environ, **settings}
    )


def test_help_tells_every_flag_that_the_script_reads() -> None:
    done = bash(ROOT / "Easy-R1" / RUN, "--help")
    assert done.returncode == 0
    for flag in ("--train", "--valid", "--model", "--images", "--encoder", "--gpus", "--print"):
        assert flag in done.stdout


def test_flags_that_are_wrong_are_told(tmp_path: Path) -> None:
    for arguments, said in (
        (["--gpu", "4"], "--gpu is no flag"),
        (["--train"], "--train needs a value"),
        (["--train", "gone.jsonl"], "--train: no file '"),
    ):
        done = bash(ROOT / "Easy-R1" / RUN, *arguments)
        assert done.returncode == 1 and said in done.stderr


def test_paths_are_taken_from_where_the_caller_is(tmp_path: Path) -> None:
    """And without a checkout around it, the script says what makes one."""
    (tmp_path / "rows here.jsonl").touch()
    arguments = ["--train", "rows here.jsonl", "--valid", "rows here.jsonl", "--gpus", "4", "data.seed=2"]
    script = shlex.join(["bash", str(ROOT / "Easy-R1" / RUN), *arguments])
    printed = bash("-c", f"cd {shlex.quote(str(tmp_path))} && {script} --print").stdout
    command = shlex.split(printed)
    assert f"data.train_files={tmp_path}/rows here.jsonl" in command and f"data.image_dir={tmp_path}" in command
    assert command[-2:] == ["trainer.n_gpus_per_node=4", "data.seed=2"]
    assert "setup_easyr1.sh makes one" in bash("-c", f"cd {shlex.quote(str(tmp_path))} && {script}").stderr


def test_setup_leaves_a_foreign_folder_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").touch()
    done = bash(SETUP, tmp_path / "mine")
    assert done.returncode == 1 and "is no git checkout" in done.stderr
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["notes.txt"]
    subprocess.run(["git", "init", "-q", str(tmp_path / "other")], check=True)
    done = bash(SETUP, tmp_path / "new", EASYR1_URL=str(tmp_path / "other"))
    assert done.returncode == 1 and "no commit b44b311 from" in done.stderr


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """EasyR1 as the setup script makes it, first on the path."""
    if not CLONE:
        pytest.skip("R1_ROUTER_EASYR1 names no clone of EasyR1")
    if find_spec("verl") is not None:
        pytest.skip("the verl of the package index is installed; EasyR1's package has the same name")
    folder = tmp_path_factory.mktemp("easyr1") / "EasyR1"
    for _ in range(2):  # the second time nothing is fetched
        done = bash(SETUP, folder, EASYR1_URL=CLONE)
        assert done.returncode == 0, done.stderr
    sys.path.insert(0, str(folder))
    yield folder
    sys.path.remove(str(folder))


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Flat rows of a text-only trajectory and of one with a picture, whose path is relative."""
    from PIL import Image

    folder = tmp_path_factory.mktemp("rows")
    Image.new("RGB", (112, 84), "red").save(folder / "flag.png")
    steps: list[dict[str, Any]] = [
        {"step_type": "ret", "problem": "Origin question: who?\n", "system": "route it", "answer": ROUTE},
        {"step_type": "ans", "problem": "Question: who?", "system": "answer it", "answer": "jan zizka"},
    ]
    shown = [{**step, "problem": step["problem"] + "<image>"} for step in steps]
    nested: list[dict[str, Any]] = [{"images": [], "steps": steps}, {"images": ["flag.png"], "steps": shown}]
    write_flat(folder / "steps.jsonl", nested)
    return folder / "steps.jsonl"


@pytest.fixture(scope="module")
def config(checkout: Path, rows: Path, encoder: str) -> Any:
    """The config as EasyR1's main merges it, from the command that the run script prints."""
    pytest.importorskip("omegaconf", reason="EasyR1's packages are not installed")
    from omegaconf import OmegaConf

    flags: list[str | Path] = [
        "--train",
        rows,
        "--valid",
        rows,
        "--images",
        rows.parent,
        "--encoder",
        encoder,
        "--print",
    ]
    keys = ["data.rollout_batch_size=4", "data.shuffle=false", "data.filter_overlong_prompts_workers=1"]
    command = shlex.split(bash(checkout / RUN, *flags, *keys).stdout)
    given = OmegaConf.from_cli(command[command.index("verl.trainer.main") + 1 :])
    file = OmegaConf.load(checkout / given.pop("config"))
    merged = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(easyr1_config(checkout)()), file, given))
    here = os.getcwd()
    os.chdir(checkout)  # where the run script starts it
    merged.deep_post_init()
    os.chdir(here)
    return merged


@pytest.fixture(scope="module")
def processor(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Qwen2.5-VL's real processor over a tokenizer of bytes, loaded by EasyR1."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen2VLImageProcessor

    folder = tmp_path_factory.mktemp("processor")
    letters = {letter: id_ for id_, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    core = Tokenizer(models.BPE(vocab=letters, merges=[]))
    core.pre_tokenizer, core.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    core.add_special_tokens(MARKS)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    Qwen2VLImageProcessor().save_pretrained(folder)
    (folder / "config.json").write_text('{"model_type": "qwen2_5_vl"}')
    return import_module("verl.utils.tokenizer").get_processor(str(folder))


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A random BERT that reads letters."""
    pytest.importorskip("sentence_transformers", reason="the encoder needs sentence-transformers")
    from transformers import BertConfig, BertModel, BertTokenizerFast

    folder = tmp_path_factory.mktemp("encoder")
    vocabulary = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        *(mark + chr(code) for mark in ("", "##") for code in range(97, 123)),
    ]
    (folder / "vocab.txt").write_text("\n".join(vocabulary))
    BertTokenizerFast(vocab_file=str(folder / "vocab.txt")).save_pretrained(folder)
    shape = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    BertModel(BertConfig(vocab_size=len(vocabulary), **shape)).save_pretrained(folder)
    return str(folder)


def test_setup_puts_the_files_in_place_and_changes_one_import(checkout: Path) -> None:
    changed = subprocess.run(["git", "-C", str(checkout), "diff", "--stat"], capture_output=True, text=True).stdout
    assert changed.split()[0] == "verl/trainer/data_loader.py" and "1 file changed" in changed
    for name in ("stepgrpo/reward.py", "examples/stepgrpo.yaml", RUN):
        assert (checkout / name).read_bytes() == (ROOT / "Easy-R1" / name).read_bytes()


def test_easyr1_merges_the_config(config: Any) -> None:
    actor, rollout = config.worker.actor, config.worker.rollout
    assert (actor.optim.lr, actor.clip_ratio_low, actor.clip_ratio_high, rollout.n) == (1e-6, 0.2, 0.2, 5)
    assert (rollout.prompt_length, rollout.response_length, actor.disable_kl) == (1024, 1024, True)
    assert config.worker.reward.reward_function_name == "compute_score"
    assert Path(config.worker.reward.reward_function).is_file()
    samples = actor.global_batch_size * rollout.n // config.trainer.n_gpus_per_node  # of one update, on one GPU
    assert samples % actor.micro_batch_size_per_device_for_update == 0


def test_easyr1_loads_rows_with_system_prompts_and_pictures(config: Any, processor: Any) -> None:
    """Through its own data loader, worker processes and all."""
    pytest.importorskip("torchdata", reason="EasyR1's packages are not installed")
    loader, _ = import_module("verl.trainer.data_loader").create_dataloader(config.data, processor.tokenizer, processor)
    (batch,) = loader
    chats = processor.tokenizer.batch_decode(batch["input_ids"])
    route = "<|im_start|>system\nroute it<|im_end|>\n<|im_start|>user\nOrigin question: who?\n"
    pictured = "<|vision_start|>" + "<|image_pad|>" * 12 + "<|vision_end|>"  # 112 x 84 pixels, 28 x 28 a token
    end = "<|im_end|>\n<|im_start|>assistant"
    assert chats[0].endswith(route + end) and chats[2].endswith(route + pictured + end)
    assert batch["attention_mask"][0].sum() == len(batch["raw_prompt_ids"][0])  # no dummy picture is attended
    assert batch["attention_mask"][2].sum() == len(batch["raw_prompt_ids"][2]) + 11
    assert [len(data["images"]) for data in batch["multi_modal_data"]] == [0, 0, 1, 1]
    assert [json.loads(target) for target in batch["ground_truth"]] == [ROUTE, "jan zizka"] * 2


def test_easyr1_asks_for_the_reward(config: Any, processor: Any) -> None:
    import torch
    from tensordict import TensorDict

    tokenizer = processor.tokenizer
    replies = [format_plan("t", "who was it?", TEXT.name), format_answer("t", "jan zizka"), "no tags"]
    targets = [json.dumps(ROUTE), json.dumps(["jan zizka", "zizka"]), json.dumps(ROUTE)]
    ids = tokenizer(replies, padding=True, return_tensors="pt")
    batch = TensorDict({"responses": ids["input_ids"], "response_mask": ids["attention_mask"]}, batch_size=3)
    data = import_module("verl.protocol").DataProto(batch=batch, non_tensor_batch={"ground_truth": targets})
    manager = import_module("verl.workers.reward").AutoRewardManager(config.worker.reward, tokenizer)
    rewards, metrics = manager.compute_reward(data)
    assert rewards.sum(dim=1).tolist() == pytest.approx([1.0, 1.0, 0.0])
    assert torch.equal(rewards.argmax(dim=1)[:2] + 1, ids["attention_mask"].sum(dim=1)[:2])  # on the last token
    assert metrics["overall"] == pytest.approx([1.0, 1.0, 0.0]) and metrics["answer"] == [1.0]
    assert metrics["failed_reply"] == [0.0, 0.0, 1.0]


def easyr1_config(checkout: Path) -> Any:
    """EasyR1's own dataclass; its rollout package imports vLLM, so without that only the package's config is taken."""
    if find_spec("vllm") is None:
        package = ModuleType("verl.workers.rollout")
        package.__path__ = [str(checkout / "verl" / "workers" / "rollout")]
        sys.modules[package.__name__] = package
        package.RolloutConfig = import_module("verl.workers.rollout.config").RolloutConfig  # type: ignore[attr-defined]
    return import_module("verl.trainer.config").PPOConfig
