"""Turn packaged weights (a GGUF chat model, a PyTorch state dict) into safetensors folders, once."""

from __future__ import annotations

import io
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

from r1_router.errors import DataError, MissingDependency

WEIGHTS = "model.safetensors"
END_OF_TURN = "<|im_end|>"
CONTEXT_TOKENS = 8192


def convert_weights(raw: Path, made: Path) -> None:
    """Rewrite the one `.pth` state dict under `raw` as safetensors; no pickled code is run."""
    try:
        import torch
        from safetensors.torch import save_file
    except ImportError as error:
        raise _needs_embedded(error) from error
    state = torch.load(_only(raw, "*.pth"), map_location="cpu", weights_only=True)
    save_file({name: tensor.contiguous() for name, tensor in state.items()}, made / WEIGHTS)


def convert_chat_model(raw: Path, made: Path) -> None:
    """Rewrite the one GGUF under `raw` as a float32 transformers folder with a mended tokenizer.

    The weights stay the quantised ones, unpacked: nothing is gained but speed and the common layout.
    """
    try:
        import gguf  # noqa: F401  transformers imports it late and with a longer message
        from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM
    except ImportError as error:
        raise _needs_embedded(error) from error
    source = _only(raw, "*.gguf").name
    with redirect_stderr(io.StringIO()):  # transformers draws bars there, across those of the caller
        loaded = AutoModelForCausalLM.from_pretrained(raw, gguf_file=source)
        # A model loaded from GGUF counts as quantised and cannot be saved: its twin of the plain config can.
        settings = loaded.config.to_dict()
        settings.pop("quantization_config", None)
        twin = LlamaForCausalLM(LlamaConfig(**settings))
        twin.load_state_dict(loaded.state_dict())
        twin.save_pretrained(made)
        _mended(AutoTokenizer.from_pretrained(raw, gguf_file=source)).save_pretrained(made)


def _mended(tokenizer: Any) -> Any:
    """The same vocabulary and template with the true end of a turn: the GGUF reader names the start as the end."""
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer.backend_tokenizer,
        bos_token=tokenizer.bos_token,
        eos_token=END_OF_TURN,
        pad_token=END_OF_TURN,
        unk_token=tokenizer.unk_token,
        chat_template=tokenizer.chat_template,
        model_max_length=CONTEXT_TOKENS,
        clean_up_tokenization_spaces=False,
    )


def _only(folder: Path, pattern: str) -> Path:
    found = sorted(folder.rglob(pattern))
    if len(found) != 1:
        raise DataError(f"{folder} should hold one {pattern} file, found {[path.name for path in found]}")
    return found[0]


def _needs_embedded(error: ImportError) -> MissingDependency:
    return MissingDependency(f'{error.name} is not installed; run `pip install "r1-router[embedded]"`')
