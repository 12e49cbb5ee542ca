"""Which numbers a model computes with: the config's `dtype` key, once for inference and training."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from r1_router.errors import ConfigError

if TYPE_CHECKING:
    import torch

DTYPES = ("float32", "bfloat16", "float16", "auto")
_FAST_BFLOAT16 = ("avx512_bf16", "amx_bf16")
"""CPU flags of processors that multiply bfloat16 natively; others emulate it, several times slower than float32."""


def fast_bfloat16(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether this CPU multiplies bfloat16 natively; False where that cannot be told."""
    return cpuinfo.is_file() and any(flag in cpuinfo.read_text(encoding="utf-8") for flag in _FAST_BFLOAT16)


def torch_dtype(name: str, device: str = "cpu") -> torch.dtype:
    """The dtype `name`; `auto` is bfloat16 on a GPU and on CPUs with it, else float32. Raises ConfigError."""
    import torch

    if name not in DTYPES:
        raise ConfigError(f"dtype: {name!r} is not one of {', '.join(DTYPES)}.")
    if name == "auto":
        name = "bfloat16" if device.startswith("cuda") or fast_bfloat16() else "float32"
    dtype: torch.dtype = getattr(torch, name)
    return dtype
