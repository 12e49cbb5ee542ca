"""A tiny random policy whose single tokens are whole replies, so that sampled ones earn different rewards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from r1_router.training.grpo.config import GrpoConfig
from r1_router.training.grpo.run import World
from r1_router.types import Source
from reward_samples import HashEncoder

TOLD = Source("text", "ter", "prose")
MARKS = ["<u>", "<s>", "<e>"]
REPLIES = [
    "<think>t</think><answer>peru</answer>",
    "<think>t</think><answer>chad</answer>",
    "<think>t</think><sub-question>who</sub-question><ret>text</ret>",
    "<think>t</think><sub-question>where</sub-question><ret>none</ret>",
    "<think>t</think><sub-question>none</sub-question><ret>none</ret>",
]
WORDS = [
    "system",
    "user",
    "assistant",
    "Origin",
    "question:",
    "which",
    "country",
    "ter-0:",
    "ter-1:",
    "Question:",
    "plan",
]
TEMPLATE = (
    "{% for message in messages %}<s> {{ message.role }} {{ message.content }} <e> {% endfor %}"
    "{% if add_generation_prompt %}<s> assistant {% endif %}"
)


def save_policy_model(folder: Path) -> Path:
    """A two-layer Llama of grouped heads over a vocabulary of marks, words and whole replies."""
    vocabulary = {word: number for number, word in enumerate([*MARKS, *WORDS, *REPLIES])}
    words = Tokenizer(models.WordLevel(vocabulary, unk_token="<u>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    words.add_special_tokens(MARKS)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, unk_token="<u>", eos_token="<e>", pad_token="<s>")
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "head_dim": 8}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "eos_token_id": 2, "pad_token_id": 1}
    config = LlamaConfig(vocab_size=len(vocabulary), **sizes, **heads, initializer_range=0.3)
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


def write_steps(path: Path, rows: int = 6) -> Path:
    """Nested step rows: a route, the answer from two passages, a stop, and the final answer."""
    steps = [
        _step("ret", "plan", "Origin question: which country\n", {"query": "who", "retriever": ["text"]}),
        _step("ans", "plan", "ter-0: peru\nter-1: chad\n\nQuestion: which country", "peru"),
        _step("ret", "plan", "Origin question: which\n", {"query": "none", "retriever": ["none"]}),
        _step("ans", "plan", "Origin question: which country country\n", ["peru", "Peru"]),
    ]
    path.write_text("".join(json.dumps({"images": [], "steps": steps}) + "\n" for _ in range(rows)), encoding="utf-8")
    return path


def tiny_config(folder: Path, **settings: Any) -> GrpoConfig:
    """Six updates of two groups of four, an evaluation after every third."""
    model, data = folder / "model", folder / "steps.jsonl"
    if not model.exists():
        write_steps(data)
        save_policy_model(model)
    quick = {"group": 4, "prompts": 2, "updates": 6, "max_tokens": 3, "evaluate_updates": 3, "checkpoint_updates": 2}
    rest = {"rank": 4, "alpha": 8, "learning_rate": 0.02, "warmup_steps": 0, "held_out": data, "held_out_prompts": 4}
    return GrpoConfig(model, data, folder / "out", **{**quick, **rest, **settings})


def world(**options: Any) -> World:
    return World(HashEncoder(), "hash", (TOLD,), **options)


def _step(kind: str, system: str, problem: str, answer: Any) -> dict[str, Any]:
    return {"step_type": kind, "system": system, "problem": problem, "answer": answer}
