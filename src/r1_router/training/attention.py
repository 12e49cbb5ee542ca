"""Causal attention for training on a CPU: plain matrix products, one per key-value head.

In bfloat16 torch's own kernel for CPUs is two to four times slower than these products, mostly in its
backward. Scores take B * heads * T * T values, so this is for prompts of hundreds of tokens, not thousands.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface

GROUPED = "r1_router_training"


def grouped_attention(
    module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scaling: float, **_: Any
) -> tuple[Tensor, None]:
    """`query` (B, H, T, D), `key` and `value` (B, G, T, D) with G dividing H; gives (B, T, H, D).

    The H/G query heads that share a key head are stacked along T, so keys and values are never repeated. `mask`, if
    any, is added to the scores in place of the causal one: (1, 1, T, T), the same for all.
    """
    batch, heads, length, width = query.shape
    groups = key.shape[1]
    stacked = (query * scaling).reshape(batch * groups, -1, width)
    keys, values = (side.reshape(batch * groups, length, width) for side in (key, value))
    hidden = _future(length, query) if mask is None else mask[0, 0]
    scores = torch.baddbmm(hidden.repeat(heads // groups, 1), stacked, keys.transpose(1, 2))
    mixed = torch.bmm(torch.softmax(scores, -1), values)
    return mixed.view(batch, heads, length, width).transpose(1, 2), None


def _future(length: int, like: Tensor) -> Tensor:
    return torch.full((length, length), float("-inf"), dtype=like.dtype, device=like.device).triu(1)


def register_attention() -> None:
    """Make `attn_implementation=GROUPED` known to the library."""
    AttentionInterface.register(GROUPED, grouped_attention)
