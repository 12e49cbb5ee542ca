"""A language model in this process, through the transformers library: loaded once, many chats decoded together."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from r1_router.dtypes import torch_dtype
from r1_router.errors import EngineError, PromptTooLong
from r1_router.llm.content import text_only
from r1_router.types import Message, Reply, Sampling

if TYPE_CHECKING:
    import torch

    from r1_router.llm.decoding import Request


class TransformersLLM:
    """Chats with a text model by continuous batching; image parts are dropped.

    `model` is a folder or a hub name, `adapter` a LoRA folder merged at load, `batch` the most chats decoded at
    once, `context` the most tokens of prompt and reply together (None: what the model was made for).
    """

    def __init__(
        self,
        model: str | Path,
        *,
        adapter: str | Path | None = None,
        dtype: str = "float32",
        batch: int = 32,
        threads: int | None = None,
        context: int | None = None,
    ) -> None:
        import torch

        from r1_router.llm.decoding import Decoder

        if threads is not None:
            torch.set_num_threads(threads)
        device = "cuda" if torch.cuda.is_available() else "cpu"
        weights, self._tokenizer = _load(model, adapter, torch_dtype(dtype, device), device)
        limit = weights.config.max_position_embeddings
        self._context = min(context or limit, limit)
        self._batch = batch
        stops = end_ids(weights.generation_config, self._tokenizer)
        banned = unspeakable_ids(self._tokenizer, weights.config.vocab_size) - stops
        self._decoder = Decoder(weights, sorted(stops), sorted(banned), self._context)
        self._waiting: deque[Request] = deque()
        self._futures: dict[Request, asyncio.Future[None]] = {}
        self._pump: asyncio.Task[None] | None = None
        # A cache of a method would hold the engine itself: a training run loads one at each evaluation and lets it go.
        self._tokens_of = lru_cache(maxsize=64)(partial(_tokenize, self._tokenizer))

    async def chat(self, messages: Sequence[Message], *, sampling: Sampling) -> Reply:
        """One reply; raises PromptTooLong where the prompt fills the context, EngineError where decoding failed."""
        from r1_router.llm.decoding import Request

        prompt, shared = self._encode(text_only(messages))
        if len(prompt) >= self._context:
            raise PromptTooLong(
                f"the prompt has {len(prompt)} tokens, the model's context holds {self._context}: "
                "show fewer passages (config: shown) or raise the config's llm.context."
            )
        request = Request(prompt, shared, sampling)
        self._futures[request] = asyncio.get_running_loop().create_future()
        self._waiting.append(request)
        if self._pump is None or self._pump.done():
            self._pump = asyncio.create_task(self._run())
        await self._futures[request]
        text = self._tokenizer.decode(request.output, skip_special_tokens=True)
        return Reply(text, len(prompt), len(request.output))

    async def _run(self) -> None:
        """Feed the decoder from the queue and settle the futures, till both are empty."""
        while self._waiting or self._decoder.active:
            room = self._batch - self._decoder.active
            newcomers = [self._waiting.popleft() for _ in range(min(room, len(self._waiting)))]
            try:
                done = await asyncio.to_thread(self._decoder.advance, newcomers, self._someone_can_join)
            except Exception as error:  # whatever the engine raised belongs to every chat it was decoding
                self._fail(error)
                continue
            for request in done:
                _settle(self._futures.pop(request))

    def _someone_can_join(self) -> bool:
        return bool(self._waiting) and self._decoder.active < self._batch

    def _fail(self, error: Exception) -> None:
        """Give the error to every chat in flight and start afresh."""
        self._decoder.reset()
        waiting = set(self._waiting)
        for request in [request for request in self._futures if request not in waiting]:
            _settle(self._futures.pop(request), EngineError(f"decoding failed: {type(error).__name__}: {error}"))

    def _encode(self, messages: list[Message]) -> tuple[list[int], int]:
        """The prompt's token ids, and how many of them all prompts share that differ in the last message only."""
        prompt = _tokenize(self._tokenizer, self._render(messages, add_generation_prompt=True))
        beginning = self._tokens_of(self._render(messages[:-1])) if len(messages) > 1 else []
        return prompt, len(beginning) if prompt[: len(beginning)] == beginning else 0

    def _render(self, messages: list[Message], *, add_generation_prompt: bool = False) -> str:
        text: str = self._tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=add_generation_prompt
        )
        return text


def _tokenize(tokenizer: Any, text: str) -> list[int]:
    ids: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
    return ids


def _load(model: str | Path, adapter: str | Path | None, dtype: torch.dtype, device: str) -> tuple[Any, Any]:
    """Model and tokenizer; the adapter is merged in float32, before any rounding."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from r1_router.llm.slots import ATTENTION, register_attention

    register_attention()
    try:
        tokenizer = AutoTokenizer.from_pretrained(model)
        first = dtype if adapter is None else torch.float32
        weights = AutoModelForCausalLM.from_pretrained(model, dtype=first, attn_implementation=ATTENTION)
    except (OSError, ValueError) as error:
        raise EngineError(
            f"no model could be loaded from {model}: {error}. `r1-router models` fetches the embedded ones."
        ) from error
    if adapter is not None:
        from peft import PeftModel

        weights = PeftModel.from_pretrained(weights, str(adapter)).merge_and_unload()
    return weights.to(device=device, dtype=dtype).eval(), tokenizer


def end_ids(generation: Any, tokenizer: Any) -> set[int]:
    """The ids that end a turn: the model's own generation settings know best, the tokenizer comes second."""
    ids = generation.eos_token_id
    ids = tokenizer.eos_token_id if ids is None else ids
    if ids is None:
        raise EngineError("neither the model's generation_config.json nor its tokenizer names an eos token.")
    return set(ids) if isinstance(ids, list) else {ids}


def unspeakable_ids(tokenizer: Any, vocab_size: int) -> set[int]:
    """Special tokens (chat marks, vision marks, padding), and ids beyond the tokenizer's: none is text."""
    marks = {id_ for id_, token in tokenizer.added_tokens_decoder.items() if token.special}
    return {id_ for id_ in marks | set(tokenizer.all_special_ids) if id_ < vocab_size} | set(
        range(len(tokenizer), vocab_size)
    )


def _settle(future: asyncio.Future[None], error: Exception | None = None) -> None:
    """Wake the chat that waits, unless it was cancelled meanwhile."""
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
