"""vLLM servers that a run starts on loopback, watches and stops.

A server rather than the library in this process: questions stream through its continuous batching with the prefix
cache on, its crash takes no results along, and several of them share a machine's GPUs.
"""

from __future__ import annotations

import asyncio
import atexit
import importlib.util
import json
import os
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from r1_router.errors import ConfigError, EngineError, MissingDependency, PromptTooLong
from r1_router.llm.openai import FIRST_WAIT, OpenAILLM
from r1_router.llm.server_process import ServerProcess
from r1_router.types import Message, Reply, Sampling

COMMAND = (sys.executable, "-m", "vllm.entrypoints.openai.api_server")
BASE, ADAPTED = "base", "adapted"
START_SECONDS = 1800.0
"""A first start may download the model."""
LORA_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""What vLLM takes as its largest rank of an adapter; an adapter may have any rank below."""
MOST_BANNED = 1024
"""Ids that a request to vLLM's GPU build may bias."""
RESTARTS = 3
WATCH_SECONDS = 1.0


class VllmLLM:
    """Chats with `servers` copies of one model, each with its share of the GPUs; a server that dies is started again.

    `model` is a folder or a hub name, `adapter` a LoRA folder, `server_args` go to every server as they are, `logs` is
    the folder of their logs. Raises MissingDependency without vLLM, EngineError when a server cannot start or has died
    too often.
    """

    def __init__(
        self,
        model: str,
        *,
        adapter: Path | None = None,
        dtype: str = "auto",
        context: int | None = None,
        servers: int = 1,
        server_args: Sequence[str] = (),
        logs: Path,
        command: Sequence[str] = COMMAND,
    ) -> None:
        if command == COMMAND and importlib.util.find_spec("vllm") is None:
            raise MissingDependency("the vllm engine needs vLLM: pip install -r requirements_router.txt")
        arguments = server_arguments(model, adapter, dtype, context)
        shares = device_shares(servers)
        self._processes = [
            ServerProcess([*command, *arguments, *server_args], logs / f"server-{n}.log", os.environ | share)
            for n, share in enumerate(shares)
        ]
        self.urls = [f"{server.url}/v1" for server in self._processes]
        banned = never_drawn(model) if command == COMMAND else ()
        self._client = OpenAILLM(self.urls, ADAPTED if adapter else BASE, first_wait=FIRST_WAIT, banned=banned)
        self._restarts = 0
        self._closed = threading.Event()
        atexit.register(self.close)
        for server in self._processes:
            server.start()
        try:
            for server in self._processes:
                server.wait_ready(START_SECONDS)
        except EngineError:
            self.close()
            raise
        threading.Thread(target=self._watch, name="vllm-watch", daemon=True).start()

    async def chat(self, messages: Sequence[Message], *, sampling: Sampling) -> Reply:
        """One reply; a chat whose server died waits till one is up again and is asked anew."""
        for _ in range(RESTARTS + 1):
            try:
                return await self._client.chat(messages, sampling=sampling)
            except PromptTooLong:
                raise
            except EngineError:
                if await asyncio.to_thread(self._all_ready):
                    raise
                await self._until_ready()
        raise EngineError(f"a chat found its server dead {RESTARTS + 1} times; {self._processes[0].explain()}")

    def close(self) -> None:
        """Stop the servers."""
        self._closed.set()
        for server in self._processes:
            server.stop()

    def _all_ready(self) -> bool:
        return all(server.ready() for server in self._processes)

    async def _until_ready(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not any([await asyncio.to_thread(server.ready) for server in self._processes]):
            given_up = self._restarts >= RESTARTS and not any(server.alive for server in self._processes)
            if given_up or time.monotonic() > deadline:
                raise EngineError(f"the model server died {self._restarts + 1} times; {self._processes[0].explain()}")
            await asyncio.sleep(WATCH_SECONDS)

    def _watch(self) -> None:
        """In a thread of its own: start again what has died, RESTARTS times in all."""
        while not self._closed.wait(WATCH_SECONDS):
            for server in self._processes:
                if not server.alive and self._restarts < RESTARTS and not self._closed.is_set():
                    self._restarts += 1
                    server.start()


def server_arguments(model: str, adapter: Path | None, dtype: str, context: int | None) -> list[str]:
    """The command line of one server; sampling defaults that come with a model are not to change ours."""
    arguments = ["--model", model, "--served-model-name", BASE, "--host", "127.0.0.1", "--dtype", dtype]
    arguments += ["--enable-prefix-caching", "--generation-config", "vllm"]
    if not _device_count():
        # Where a prompt is read in parts, a seeded chat ends the CPU build: its generators have no offset to set back.
        arguments.append("--no-enable-chunked-prefill")
    if context is not None:
        arguments += ["--max-model-len", str(context)]
    if adapter is not None:
        rank = json.loads((adapter / "adapter_config.json").read_text(encoding="utf-8"))["r"]
        most = next((allowed for allowed in LORA_RANKS if allowed >= rank), rank)
        arguments += ["--enable-lora", "--max-lora-rank", str(most), "--lora-modules", f"{ADAPTED}={adapter}"]
    return arguments


def never_drawn(model: str) -> list[int]:
    """The ids of special tokens that end no reply: marks of chats and pictures have no place in a text.

    Where they are too many the highest are left out, which are those that the tokenizer does not know.
    """
    from transformers import AutoConfig, AutoTokenizer, GenerationConfig

    from r1_router.llm.transformers import end_ids, unspeakable_ids

    tokenizer = AutoTokenizer.from_pretrained(model)
    config = AutoConfig.from_pretrained(model)
    try:
        generation = GenerationConfig.from_pretrained(model)
    except OSError:  # a model need not bring one
        generation = GenerationConfig.from_model_config(config)
    stops = end_ids(generation, tokenizer)
    return sorted(unspeakable_ids(tokenizer, config.get_text_config().vocab_size) - stops)[:MOST_BANNED]


def device_shares(servers: int) -> list[dict[str, str]]:
    """For each server, the environment that shows it its share of the visible GPUs; nothing to share for one server."""
    if servers == 1:
        return [{}]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    devices = visible.split(",") if visible else [str(n) for n in range(_device_count())]
    if not devices:
        return [{}] * servers
    if len(devices) < servers:
        raise ConfigError(f"llm.servers: {servers} servers want a GPU each, {len(devices)} are visible.")
    each = len(devices) // servers
    return [{"CUDA_VISIBLE_DEVICES": ",".join(devices[n * each : (n + 1) * each])} for n in range(servers)]


def _device_count() -> int:
    if importlib.util.find_spec("torch") is None:
        return 0
    import torch

    return torch.cuda.device_count()
