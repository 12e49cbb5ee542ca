"""Sampling where each row of a batch has settings and random numbers of its own.

The library samples a whole batch from one state, so a reply would depend on what else was in its batch. Here each row
draws Gumbel noise from its own generator: the largest noisy logit is a sample of the row's softmax.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import FloatTensor, LongTensor
from transformers import LogitsProcessor

from r1_router.types import Sampling


class RowSampling(LogitsProcessor):
    """Turns greedy generation into each row's own: temperature 0 stays greedy; `banned` ids are never drawn."""

    def __init__(self, rows: Sequence[Sampling], banned: Sequence[int], device: str) -> None:
        self._rows = rows
        self._banned = torch.tensor(banned, dtype=torch.long, device=device)
        self._generators = [torch.Generator().manual_seed(row.seed) for row in rows]

    def __call__(self, input_ids: LongTensor, scores: FloatTensor) -> FloatTensor:
        scores = scores.index_fill(1, self._banned, -torch.inf)
        for number, (row, generator) in enumerate(zip(self._rows, self._generators, strict=True)):
            if row.temperature > 0:
                scores[number] = self._noisy(scores[number], row, generator)
        return scores

    def _noisy(self, logits: torch.Tensor, row: Sampling, generator: torch.Generator) -> torch.Tensor:
        best = logits.topk(min(row.top_k, logits.numel())) if row.top_k > 0 else logits.sort(descending=True)
        uniform = torch.rand(best.values.shape, generator=generator).clamp_min(torch.finfo(torch.float32).tiny)
        noise = -torch.log(-torch.log(uniform)).to(logits.device)
        drawn = torch.full_like(logits, -torch.inf)
        drawn[best.indices] = (best.values.float() / row.temperature + noise).to(logits.dtype)
        return drawn
