"""Key-value memory for decoding: a fixed set of rows, each as long as its own text, without padding.

A library cache grows by copying itself at every token and pads all rows to the longest; both cost more than the
model itself once a small model decodes many rows. Here a token is written in place, a finished row's place is
taken by the last row, and attention for one new token is two batched products per layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface, Cache, DynamicCache
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

ATTENTION = "r1_router_grouped"
_HEADROOM = 128
"""Columns added beyond what is needed when the memory grows, so that it grows rarely."""


class SlotCache(Cache):
    """Rows 0..n-1 are in use; row i holds `lengths[i]` tokens. Given to the model in place of its own cache."""

    def __init__(self) -> None:
        super().__init__(layers=[])
        self.lengths: list[int] = []
        self._keys: list[Tensor] = []
        self._values: list[Tensor] = []
        self._index: tuple[Tensor, Tensor] | None = None

    def add(self, prefilled: DynamicCache, row: int, length: int) -> None:
        """Take in the first `length` tokens of one row of a library cache."""
        slot = len(self.lengths)
        for layer, source in enumerate(prefilled.layers):
            self._make_room(layer, source.keys, slot + 1, length)
            self._keys[layer][slot, :, :length] = source.keys[row, :, :length]
            self._values[layer][slot, :, :length] = source.values[row, :, :length]
        self.lengths.append(length)

    def drop(self, row: int) -> None:
        """Free `row`; the last row takes its place."""
        last = len(self.lengths) - 1
        length = self.lengths.pop()
        if row == last:
            return
        for memory in (*self._keys, *self._values):
            memory[row, :, :length] = memory[last, :, :length]
        self.lengths[row] = length

    def open_column(self) -> tuple[Tensor, Tensor]:
        """Make room for one token a row; gives positions (n, 1) and the mask (n, 1, 1, width) for the model."""
        width = max(self.lengths) + 1
        for layer, memory in enumerate(self._keys):
            self._make_room(layer, memory, len(self.lengths), width)
        device = self._keys[0].device
        lengths = torch.tensor(self.lengths, device=device)
        self._index = (torch.arange(len(self.lengths), device=device), lengths)
        self.lengths = [length + 1 for length in self.lengths]
        return lengths[:, None], (torch.arange(width, device=device) <= lengths[:, None])[:, None, None, :]

    def update(self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any) -> Any:
        """Called by each layer: write one token's keys and values a row, and hand out all rows' (library protocol)."""
        assert self._index is not None, "open_column comes before the model's forward pass"
        rows, columns = self._index
        keys, values = self._keys[layer_idx], self._values[layer_idx]
        keys[rows, :, columns] = key_states[:, :, 0]
        values[rows, :, columns] = value_states[:, :, 0]
        width = max(self.lengths)
        return keys[: len(rows), :, :width], values[: len(rows), :, :width]

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Tokens in the longest row (library protocol)."""
        return max(self.lengths, default=0)

    def _make_room(self, layer: int, like: Tensor, rows: int, columns: int) -> None:
        """Grow one layer's memory to at least `rows` and `columns`, keeping what it holds."""
        if layer == len(self._keys):
            empty = like.new_zeros(0, like.shape[1], 0, like.shape[3])
            self._keys.append(empty)
            self._values.append(empty)
        old_rows, heads, old_columns, size = self._keys[layer].shape
        if rows <= old_rows and columns <= old_columns:
            return
        new_rows = max(rows, 2 * old_rows) if rows > old_rows else old_rows
        new_columns = columns + _HEADROOM if columns > old_columns else old_columns
        for memory in (self._keys, self._values):
            grown = like.new_zeros(new_rows, heads, new_columns, size)
            grown[:old_rows, :, :old_columns] = memory[layer]
            memory[layer] = grown


def grouped_attention(
    module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **options: Any
) -> tuple[Tensor, None]:
    """Attention of one new token a row, heads grouped by the keys they share; longer queries go the library's way.

    query (n, heads, 1, d), key and value (n, kv_heads, width, d), mask (n, 1, 1, width) true where seen.
    """
    if query.shape[2] > 1 or attention_mask is None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, **options)
    rows, heads, _, size = query.shape
    grouped = query.reshape(rows, key.shape[1], heads // key.shape[1], size)
    scores = torch.matmul(grouped, key.transpose(2, 3)) * (options.get("scaling") or size**-0.5)
    weights = torch.softmax(scores.masked_fill(~attention_mask, float("-inf")), dim=-1)
    return torch.matmul(weights, value).reshape(rows, 1, heads, size), None


def register_attention() -> None:
    """Make `attn_implementation=ATTENTION` known to the library."""
    AttentionInterface.register(ATTENTION, grouped_attention)
    AttentionMaskInterface.register(ATTENTION, sdpa_mask)


def widened(layers: Sequence[tuple[Tensor, Tensor]], rows: int) -> DynamicCache:
    """A library cache in which each of `rows` rows begins with the same keys and values (1, heads, length, d)."""
    cache = DynamicCache()
    for layer, (keys, values) in enumerate(layers):
        cache.update(keys.expand(rows, -1, -1, -1), values.expand(rows, -1, -1, -1), layer)
    return cache
