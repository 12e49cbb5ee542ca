"""The model to be tuned: frozen weights from disk, LoRA matrices on top, and the loss of a batch."""

from __future__ import annotations

import ctypes
import re
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from peft import LoraConfig, PeftModel, get_peft_model, get_peft_model_state_dict
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import Module
from torch.nn.functional import cross_entropy
from transformers import (
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from r1_router.dtypes import torch_dtype
from r1_router.errors import ConfigError
from r1_router.llm.vision import sees_images
from r1_router.training.attention import GROUPED, register_attention
from r1_router.training.checkpoint import replace
from r1_router.training.data import Batch
from r1_router.training.merged_lora import merge_in_forward

if TYPE_CHECKING:
    from r1_router.training.sft import SftConfig

VISION = r".*\bvisual\b.*"
"""The modules of a model's part for images."""


def load_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    """The tokenizer of a model folder; raises ConfigError for one that cannot frame a chat."""
    if not (folder / "config.json").exists():
        raise ConfigError(f"no model in {folder} (no config.json there); `r1-router models` fetches the embedded one")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    if tokenizer.chat_template is None or tokenizer.eos_token is None:
        raise ConfigError(f"the tokenizer in {folder} lacks a chat template or an end-of-turn token")
    return tokenizer


def load_processor(folder: Path) -> Any:
    """What makes token ids of chats: a tokenizer, with an image processor beside it for a model that sees."""
    tokenizer = load_tokenizer(folder)
    if not sees_images(folder):
        return tokenizer
    from r1_router.training.vision import load_still_processor

    return load_still_processor(folder)


def load_model(config: SftConfig, device: str = "cpu") -> Module:
    """What is trained: float32 LoRA matrices on every linear layer but the head, or all weights, in float32 too.

    With LoRA the frozen weights are in `config.dtype`. Of a model that sees the part for images stays as it is.
    """
    torch.manual_seed(config.seed)
    dtype = torch_dtype(config.dtype, device) if config.lora else torch.float32
    base = load_base(config.model, dtype, fast=device == "cpu")
    base.config.use_cache = False
    model = fresh_adapter(base, config.rank, config.alpha) if config.lora else with_images_frozen(base)
    if config.gradient_checkpointing:
        base.gradient_checkpointing_enable({"use_reentrant": False})
        model.train()  # it is done in training mode only
    if config.compile:
        for layer in base.get_decoder().layers:  # each by itself: the code is the same, so it is compiled once
            layer.compile(dynamic=True)
    return model.to(device)


def load_base(folder: Path, dtype: torch.dtype, *, fast: bool = True) -> PreTrainedModel:
    """The model of a folder, to be trained; if `fast`, a text model has the attention made for training on a CPU."""
    keep_freed_memory()
    register_attention()
    return load_plain(folder, dtype, GROUPED if fast and not sees_images(folder) else "sdpa")


def load_plain(folder: Path, dtype: torch.dtype, attention: str = "sdpa") -> PreTrainedModel:
    """The model of a folder, whether it sees images or not."""
    kind = AutoModelForImageTextToText if sees_images(folder) else AutoModelForCausalLM
    return kind.from_pretrained(folder, dtype=dtype, attn_implementation=attention)


def fresh_adapter(base: PreTrainedModel, rank: int, alpha: int) -> PeftModel:
    """The model with new matrices, in the merged form."""
    lora = LoraConfig(
        r=rank,
        lora_alpha=alpha,
        target_modules="all-linear",
        exclude_modules=VISION if hasattr(base.config, "vision_config") else None,
        task_type="CAUSAL_LM",
    )
    model = get_peft_model(base, lora)
    merge_in_forward(model)
    return model


def with_images_frozen(base: PreTrainedModel) -> PreTrainedModel:
    """The model, all its weights to be trained but those of its part for images."""
    for name, parameter in base.named_parameters():
        parameter.requires_grad_(not re.match(VISION, name))
    return base


def completion_loss(model: Any, batch: Batch) -> Tensor:
    """Mean cross-entropy of the completion tokens; only their hidden states go through the head."""
    causal = model.get_base_model() if isinstance(model, PeftModel) else model
    hidden = causal.base_model(input_ids=batch.ids, **batch.seen).last_hidden_state
    logits = causal.get_output_embeddings()(hidden[batch.rows, batch.columns])
    return cross_entropy(logits.float(), batch.targets)


def save_weights(model: Any, processor: Any, folder: Path) -> None:
    """An adapter in peft's form, or all weights with what makes token ids beside them."""
    folder.mkdir(parents=True, exist_ok=True)
    if isinstance(model, PeftModel):
        save_adapter(model, folder)
        return
    model.save_pretrained(folder)
    processor.save_pretrained(folder)


def save_adapter(model: PeftModel, folder: Path) -> None:
    """Write peft's two files: matrices in float16, no path of this machine, the same bytes for the same values."""
    partial = folder / "adapter_model.partial"
    tensors = {key: value.half().contiguous() for key, value in get_peft_model_state_dict(model).items()}
    save_file(tensors, partial, {"format": "pt"})
    replace(partial, folder / "adapter_model.safetensors")
    lora = copy(model.peft_config["default"])
    lora.base_model_name_or_path = Path(lora.base_model_name_or_path).name
    lora.target_modules = sorted(lora.target_modules)
    lora.inference_mode = True
    lora.save_pretrained(folder)


def keep_freed_memory() -> None:
    """Let glibc keep large freed blocks: giving them back and faulting them in anew takes a fifth of a CPU step."""
    mmap_threshold, trim_threshold, never = -3, -1, 2**31 - 1
    if mallopt := getattr(ctypes.CDLL(None), "mallopt", None):
        mallopt(mmap_threshold, never)
        mallopt(trim_threshold, never)
