"""The policy: the model of a folder, with an adapter to go on from, a fresh one, or all its weights to train."""

from __future__ import annotations

from typing import Any

import torch
from peft import PeftModel

from r1_router.dtypes import torch_dtype
from r1_router.errors import ConfigError
from r1_router.training.grpo.config import GrpoConfig
from r1_router.training.merged_lora import merge_in_forward
from r1_router.training.model import fresh_adapter, load_base


def load_policy(config: GrpoConfig, device: str) -> Any:
    """The model to train; with LoRA in the merged form, its frozen weights in the config's dtype.

    All weights are trained in float32, which small steps do not get lost in. Raises ConfigError for an adapter that is
    not there.
    """
    torch.manual_seed(config.seed)
    fast = device == "cpu" and config.engine != "transformers"  # which generates with the policy itself
    base = load_base(config.model, torch_dtype(config.dtype, device) if config.lora else torch.float32, fast=fast)
    if config.adapter is None:
        return fresh_adapter(base, config.rank, config.alpha) if config.lora else base
    if not (config.adapter / "adapter_config.json").is_file():
        raise ConfigError(f"grpo.adapter: no adapter in {config.adapter}; `r1-router train sft` makes one.")
    model = PeftModel.from_pretrained(base, str(config.adapter), is_trainable=config.lora)
    if not config.lora:
        return model.merge_and_unload()
    merge_in_forward(model)
    return model
