"""Continuous batching for one causal language model in process: rows join and leave the batch at every token.

Newcomers are read in length-sorted groups behind a shared beginning (the system text and examples), which is read
once and remembered; then each joins the rows being decoded. No row waits for the longest of its batch.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import torch
from torch import Tensor
from transformers import PreTrainedModel

from r1_router.llm.slots import SlotCache, widened
from r1_router.types import Sampling

_PREFIXES_KEPT = 8
"""Shared beginnings remembered: a method has at most four, a reminder adds a few that are soon forgotten."""
_GROUP_TOKENS = 512
"""Tokens read in one pass: more gains nothing on a CPU, and longer passes keep the decoding rows waiting."""


@dataclass(slots=True, eq=False)
class Request:
    """One prompt as token ids, of which the first `shared` are a beginning that other prompts have too.

    `output` grows while the request is decoded; the token that ends it is not part of it.
    """

    prompt: list[int]
    shared: int
    sampling: Sampling
    output: list[int] = field(default_factory=list)
    generator: torch.Generator = field(default_factory=torch.Generator)

    def __post_init__(self) -> None:
        self.generator.manual_seed(self.sampling.seed)


class Decoder:
    """Prompts in, token ids out; call `advance` till nothing is active.

    `stops` end a reply and `banned` ids are never drawn. A row that fills the `context` ends there.
    """

    def __init__(self, model: PreTrainedModel, stops: Sequence[int], banned: Sequence[int], context: int) -> None:
        self._model = model
        self._body = model.get_decoder()
        self._head = model.get_output_embeddings()
        self._stops = frozenset(stops)
        self._banned = torch.tensor(sorted(banned), dtype=torch.long, device=model.device)
        self._context = context
        self._prefixes: OrderedDict[tuple[int, ...], list[tuple[Tensor, Tensor]]] = OrderedDict()
        self._slots = SlotCache()
        self._rows: list[Request] = []

    @property
    def active(self) -> int:
        """Rows being decoded."""
        return len(self._rows)

    @torch.inference_mode()
    def advance(self, newcomers: Sequence[Request], pause: Callable[[], bool] = lambda: False) -> list[Request]:
        """Take in the newcomers, then decode till a row is done or `pause` says so; gives what is done."""
        done = [request for group in _groups(newcomers) for request in self._read(group)]
        while self._rows and not done and not pause():
            done = self._decode_one()
        return done

    def reset(self) -> None:
        """Forget all rows, after a failure."""
        self._slots, self._rows = SlotCache(), []

    def _read(self, group: Sequence[Request]) -> list[Request]:
        """Read the group's prompts in one pass, draw each one's first token and let it join the rows."""
        shared = group[0].shared
        rest = [request.prompt[shared:] for request in group]
        width = max(map(len, rest))
        ids = torch.tensor([tokens + [0] * (width - len(tokens)) for tokens in rest], device=self._model.device)
        cache = widened(self._prefix(tuple(group[0].prompt[:shared])), len(group))
        hidden = self._body(ids, past_key_values=cache, use_cache=True).last_hidden_state
        last = torch.tensor([len(tokens) - 1 for tokens in rest], device=ids.device)
        first_row = len(self._rows)
        for row, request in enumerate(group):
            self._slots.add(cache, row, len(request.prompt))
            self._rows.append(request)
        return self._draw(self._head(hidden[torch.arange(len(group), device=ids.device), last]), first_row)

    def _prefix(self, tokens: tuple[int, ...]) -> list[tuple[Tensor, Tensor]]:
        """Each layer's keys and values of a shared beginning, read once."""
        if not tokens:
            return []
        if tokens not in self._prefixes:
            cache = widened([], 1)
            self._body(torch.tensor([tokens], device=self._model.device), past_key_values=cache, use_cache=True)
            self._prefixes[tokens] = [(layer.keys, layer.values) for layer in cache.layers]
        self._prefixes.move_to_end(tokens)
        while len(self._prefixes) > _PREFIXES_KEPT:
            self._prefixes.popitem(last=False)
        return self._prefixes[tokens]

    def _decode_one(self) -> list[Request]:
        """One more token for every row."""
        ids = torch.tensor([[request.output[-1]] for request in self._rows], device=self._model.device)
        positions, mask = self._slots.open_column()
        hidden = self._body(
            ids, attention_mask=mask, position_ids=positions, past_key_values=self._slots, use_cache=True
        ).last_hidden_state
        return self._draw(self._head(hidden[:, -1]), 0)

    def _draw(self, logits: Tensor, first_row: int) -> list[Request]:
        """Draw the next token of the rows from `first_row` on; rows that are done leave and are given back."""
        logits = logits.float().index_fill_(1, self._banned, float("-inf"))
        rows = self._rows[first_row:]
        tokens = logits.argmax(dim=-1).tolist()
        for row, request in enumerate(rows):
            if request.sampling.temperature > 0:
                tokens[row] = self._sample(logits[row], request)
        done = []
        for row in reversed(range(len(rows))):
            if self._ends(rows[row], tokens[row]):
                done.append(rows[row])
                self._leave(first_row + row)
        return done

    def _sample(self, logits: Tensor, request: Request) -> int:
        """One token from the `top_k` likeliest; each request draws from its own seed, whatever rows are beside it."""
        k = min(request.sampling.top_k or len(logits), len(logits))
        values, indices = torch.topk(logits, k)
        weights = torch.softmax(values / request.sampling.temperature, dim=-1).cpu()
        return int(indices[torch.multinomial(weights, 1, generator=request.generator)])

    def _ends(self, request: Request, token: int) -> bool:
        """Take the token in, unless it ends the reply; tell whether the row is done."""
        if token in self._stops:
            return True
        request.output.append(token)
        length = len(request.prompt) + len(request.output)
        return len(request.output) >= request.sampling.max_tokens or length >= self._context

    def _leave(self, row: int) -> None:
        """Free a row; the last row takes its place, here as in the slots."""
        self._slots.drop(row)
        last = self._rows.pop()
        if row < len(self._rows):
            self._rows[row] = last


def _groups(requests: Sequence[Request]) -> Iterator[list[Request]]:
    """Requests with the same beginning and about the same length, at most `_GROUP_TOKENS` tokens a group."""

    def beginning(request: Request) -> list[int]:
        return request.prompt[: request.shared]

    ordered = sorted(requests, key=lambda request: (beginning(request), len(request.prompt)))
    for _, same in groupby(ordered, key=beginning):
        group: list[Request] = []
        for request in same:
            if group and (len(group) + 1) * (len(request.prompt) - request.shared) > _GROUP_TOKENS:
                yield group
                group = []
            group.append(request)
        yield group
