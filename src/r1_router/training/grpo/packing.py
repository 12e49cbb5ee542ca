"""A group's replies behind one reading of their prompt: several times fewer tokens for a CPU to train on.

A pack is one row, `prompt[:-1]` followed by a segment for each reply: the prompt's last token, then the reply. A mask
lets a segment see the prompt and itself, and positions go on from the prompt in each, so every reply's
log-probabilities are those of its own row. The prompt's last token opens each segment, for what it predicts differs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from peft import PeftModel
from torch import Tensor

PACK_TOKENS = 1024
"""Attention grows with the square of a pack, so a pack that is longer already takes no further reply."""


@dataclass(frozen=True, slots=True)
class Pack:
    """The replies `rows` to one prompt; token `n` predicts `targets[n]` where that is not -1."""

    rows: tuple[int, ...]
    ids: Tensor
    positions: Tensor
    segments: Tensor
    targets: Tensor


def packs(ids: Tensor, mask: Tensor, keep: int) -> Iterator[Pack]:
    """Packs of TRL's rows: `ids` and `mask` (B, T), a prompt padded left, a reply padded right in the last `keep`."""
    prompts = [row[:-keep][seen[:-keep].bool()] for row, seen in zip(ids, mask, strict=True)]
    replies = [row[-keep:][seen[-keep:].bool()] for row, seen in zip(ids, mask, strict=True)]
    rows: list[int] = []
    for index in range(len(prompts)):
        if rows and not (
            torch.equal(prompts[rows[0]], prompts[index])
            and len(prompts[index]) + sum(len(replies[row]) for row in rows) < PACK_TOKENS
        ):
            yield _pack(rows, prompts[rows[0]], replies)
            rows = []
        rows.append(index)
    yield _pack(rows, prompts[rows[0]], replies)


def packed_log_probs(
    model: torch.nn.Module, ids: Tensor, mask: Tensor, keep: int, temperature: float
) -> tuple[Tensor, Tensor]:
    """Log-probability and entropy of each reply token, (B, keep) each, 0 where there is none."""
    causal = model.get_base_model() if isinstance(model, PeftModel) else model
    log_probs, entropies = (torch.zeros(len(ids), keep, device=ids.device) for _ in range(2))
    for pack in packs(ids, mask, keep):
        hidden = causal.base_model(
            input_ids=pack.ids[None],
            attention_mask=_seen(pack.segments, causal.dtype),
            position_ids=pack.positions[None],
            use_cache=False,
        ).last_hidden_state[0]
        told = pack.targets >= 0
        logits = causal.get_output_embeddings()(hidden[told]).float() / temperature
        spread = torch.log_softmax(logits, -1)
        chosen = spread.gather(1, pack.targets[told][:, None])[:, 0]
        rows, columns = _places(pack, told)
        log_probs = log_probs.index_put((rows, columns), chosen)
        with torch.no_grad():
            entropies = entropies.index_put((rows, columns), -(spread.exp() * spread).sum(-1))
    return log_probs, entropies


def _pack(rows: Sequence[int], prompt: Tensor, replies: Sequence[Tensor]) -> Pack:
    start, last = len(prompt) - 1, prompt[-1:]
    none = torch.full((1,), -1, device=prompt.device)
    parts = [torch.cat((last, replies[row])) for row in rows]
    places = [torch.arange(start, start + len(part), device=prompt.device) for part in parts]
    return Pack(
        rows=tuple(rows),
        ids=torch.cat((prompt[:-1], *parts)),
        positions=torch.cat((torch.arange(start, device=prompt.device), *places)),
        segments=torch.cat([torch.full((start,), -1), *(torch.full((len(part),), n) for n, part in enumerate(parts))]),
        targets=torch.cat((none.expand(start), *(torch.cat((replies[row], none)) for row in rows))),
    )


def _seen(segments: Tensor, dtype: torch.dtype) -> Tensor:
    """What is added to the scores, (1, 1, T, T): 0 where a token sees another, -inf where it does not."""
    own = segments[:, None] == segments[None, :]
    shared = (segments < 0)[None, :]
    seen = (own | shared).tril()
    return torch.zeros(seen.shape, dtype=dtype).masked_fill(~seen, float("-inf"))[None, None]


def _places(pack: Pack, told: Tensor) -> tuple[Tensor, Tensor]:
    """Row and column, in the batch, of every token that is told."""
    segments = pack.segments[told]
    start = int((pack.segments < 0).sum())
    return torch.tensor(pack.rows)[segments], pack.positions[told] - start
