"""Replies sampled by this package's own decoder from a copy of the policy with its adapter merged.

The prompt of a group is read once for all its replies, rows leave the batch as they end, and no gradient, padding or
unmerged adapter slows the decoding: several times as fast on a CPU as the training model's own generation.
"""

from __future__ import annotations

import zlib
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, PreTrainedTokenizerBase

from r1_router.errors import PromptTooLong
from r1_router.llm.content import text_only
from r1_router.llm.decoding import Decoder, Request
from r1_router.llm.slots import ATTENTION, register_attention
from r1_router.llm.transformers import end_ids, unspeakable_ids
from r1_router.training.grpo.rounds import Answers, Asked
from r1_router.training.merged_lora import merged_weights
from r1_router.types import Message, Reply, Sampling


class Rollouts:
    """Called by TRL with a batch's prompts and its trainer; special tokens are never sampled."""

    def __init__(self, model: Path, tokenizer: PreTrainedTokenizerBase, dtype: torch.dtype, device: str) -> None:
        register_attention()
        copy = AutoModelForCausalLM.from_pretrained(model, dtype=dtype, attn_implementation=ATTENTION)
        self._copy = copy.to(device).eval().requires_grad_(False)
        self._tokenizer = tokenizer
        self._stops = end_ids(copy.generation_config, tokenizer) | {tokenizer.eos_token_id}
        self._banned = unspeakable_ids(tokenizer, copy.config.vocab_size) - self._stops
        self._context: int = copy.config.max_position_embeddings
        self._synced: int | None = None

    def __call__(self, prompts: Sequence[Sequence[Message]], trainer: Any) -> dict[str, Any]:
        """Token ids of prompts and replies, the end of the turn among them where one was reached (TRL's protocol)."""
        self.follow(trainer)
        step, config = trainer.state.global_step, trainer.step_config
        sampling = Sampling(temperature=config.temperature, top_k=config.top_k, max_tokens=config.max_tokens)
        requests = self._requests(prompts, sampling, f"{config.seed}/{step}")
        self._decode(requests, config.rollout_batch)
        return {
            "prompt_ids": [request.prompt for request in requests],
            "completion_ids": [self._closed(request) for request in requests],
            "logprobs": None,
        }

    def follow(self, trainer: Any) -> None:
        """Take over the policy's weights of this update, once."""
        if self._synced != trainer.state.global_step:
            self._follow(trainer.accelerator.unwrap_model(trainer.model))
            self._synced = trainer.state.global_step

    def answers(self, batch: int) -> Answers:
        """What answers chats, each sampled as it is asked to be, `batch` of them decoded at once."""

        def answer(asked: Sequence[Asked]) -> list[Reply | Exception]:
            requests = [self._request(self._text(messages), sampling) for messages, sampling in asked]
            fitting = [request for request in requests if len(request.prompt) < self._context]
            self._decode(fitting, batch)
            return [self._reply(request) for request in requests]

        return answer

    def _reply(self, request: Request) -> Reply | Exception:
        if len(request.prompt) >= self._context:
            return PromptTooLong(f"a prompt of {len(request.prompt)} tokens, where {self._context} have room.")
        text = self._tokenizer.decode(request.output, skip_special_tokens=True)
        return Reply(text, len(request.prompt), len(request.output))

    def _text(self, messages: Sequence[Message]) -> str:
        chat = text_only(messages)
        text: str = self._tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
        return text

    def _request(self, text: str, sampling: Sampling) -> Request:
        ids = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        return Request(ids, len(ids) - 1, sampling)

    def _requests(self, prompts: Sequence[Sequence[Message]], sampling: Sampling, seed: str) -> list[Request]:
        """One request a prompt; the seed of each comes of the update, its prompt, and which copy of it it is."""
        seen: Counter[str] = Counter()
        requests = []
        for text in map(self._text, prompts):
            own = zlib.crc32(f"{seed}/{seen[text]}/{text}".encode())
            seen[text] += 1
            requests.append(self._request(text, replace(sampling, seed=own)))
        return requests

    def _decode(self, requests: Sequence[Request], batch: int) -> None:
        waiting = deque(requests)

        def someone_can_join() -> bool:
            return bool(waiting) and self._decoder.active < batch

        while waiting or self._decoder.active:
            room = batch - self._decoder.active
            self._decoder.advance([waiting.popleft() for _ in range(min(room, len(waiting)))], someone_can_join)

    def _closed(self, request: Request) -> list[int]:
        """The reply with its end, unless it was cut at its most tokens or at the context."""
        length = len(request.prompt) + len(request.output)
        cut = len(request.output) >= request.sampling.max_tokens or length >= self._context
        return request.output if cut else [*request.output, self._tokenizer.eos_token_id]

    @torch.no_grad()
    def _follow(self, policy: Any) -> None:
        """Copy the policy's weights of the moment; the decoder is a new one, for it remembers what it has read."""
        own = dict(self._copy.named_parameters())
        for name, weight in merged_weights(policy):
            own[name].copy_(weight)
        self._decoder = Decoder(self._copy, sorted(self._stops), sorted(self._banned), self._context)
