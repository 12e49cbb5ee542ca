"""An adapter merged into its model: a plain model folder, for what cannot read adapters."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from r1_router.errors import ConfigError


def merge_adapter(model: Path, adapter: Path, output: Path, dtype: str = "float32") -> None:
    """Write `model` with `adapter` merged in, in `dtype`, with its tokenizer; the folder appears whole or not at all.

    The sums are made in float32, before any rounding. Raises ConfigError where a folder is missing or in the way,
    or `dtype` is not known.
    """
    import torch
    from peft import PeftModel

    from r1_router.dtypes import torch_dtype
    from r1_router.training.model import load_plain, load_processor

    rounded = torch_dtype(dtype)
    if not (adapter / "adapter_config.json").is_file():
        raise ConfigError(f"--adapter: no adapter in {adapter}; `r1-router train` makes one.")
    if output.exists():
        raise ConfigError(f"--output: {output} is there already; delete it or choose another folder.")
    processor = load_processor(model)
    merged = PeftModel.from_pretrained(load_plain(model, torch.float32), str(adapter)).merge_and_unload()
    part = output.with_name(f".{output.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    merged.to(rounded).save_pretrained(part)
    processor.save_pretrained(part)
    os.rename(part, output)
