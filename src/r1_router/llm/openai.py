"""A language model behind OpenAI-compatible servers that take `top_k`: vLLM, SGLang, llama.cpp."""

from __future__ import annotations

import asyncio
import base64
import mimetypes
import os
import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx

from r1_router.errors import ConfigError, EngineError, PromptTooLong
from r1_router.llm.content import text_only
from r1_router.types import Message, Reply, Sampling

TRIES = 6
FIRST_WAIT = 0.5
"""Seconds before the second try; each later wait is twice the one before, with up to as much again by chance."""
_TOO_LONG = re.compile(
    r"(context|model|sequence)[ _](length|window)|exceeds? the (available )?context|too many tokens", re.IGNORECASE
)
"""How servers word a prompt that does not fit: vLLM and OpenAI, SGLang, llama.cpp."""
_SEES_NOTHING = re.compile(
    r"not a multimodal model|(does not|doesn't|not) support (image|vision|multimodal)|image input is not supported",
    re.IGNORECASE,
)
"""How vLLM, SGLang and llama.cpp refuse a picture that their model has no eyes for."""
_WORTH_RETRYING = {408, 409, 425, 429, 500, 502, 503, 504}


class _Server:
    """One of the servers: how many requests it has, and whether it is better left alone just now."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.in_flight = 0
        self.works()

    def works(self) -> None:
        """It has answered."""
        self._failures, self._until = 0, 0.0

    def fails(self, first_wait: float) -> None:
        """It has not: rest twice as long as the last time; failures of requests sent before that count once."""
        now = asyncio.get_running_loop().time()
        if now >= self._until:
            self._failures = min(self._failures + 1, TRIES)
            self._until = now + first_wait * 2**self._failures

    def rests(self, now: float) -> bool:
        """Whether it is to be left alone at `now`: it rests, or one request is finding out whether it works."""
        return self._failures > 0 and (now < self._until or self.in_flight > 0)


class OpenAILLM:
    """Chats with one server or several alike; requests go out as they are awaited, for such a server batches by itself.

    `base_urls` end before `/chat/completions`; each request goes to the server with the fewest in flight, a second try
    to another one where there is one. A server that fails is left alone for a while, longer each time, then tried with
    one request. `api_key_env` names the environment variable that holds the key, so that no key
    stands in a config. Images are sent as data URLs, unless a server says that its model sees none: then the texts
    alone. Token ids in `banned` are never drawn. Raises EngineError once the tries are used up.
    """

    def __init__(
        self,
        base_urls: Sequence[str],
        model: str,
        *,
        api_key_env: str | None = None,
        timeout: float = 300.0,
        first_wait: float = FIRST_WAIT,
        banned: Sequence[int] = (),
    ) -> None:
        self._headers = {"Authorization": f"Bearer {_key(api_key_env)}"} if api_key_env else {}
        self._servers = [_Server(url.rstrip("/") + "/chat/completions") for url in base_urls]
        self._model = model
        self._first_wait = first_wait
        self._extra = {"logit_bias": {str(id_): -100 for id_ in banned}} if banned else {}
        self._timeout = timeout
        self._sees = True
        self._client: httpx.AsyncClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def chat(self, messages: Sequence[Message], *, sampling: Sampling) -> Reply:
        tried: list[_Server] = []
        problem = ""
        for attempt in range(TRIES):
            if attempt:
                await asyncio.sleep(self._first_wait * 2 ** (attempt - 1) * (1 + random.random()))
            server = self._choose(tried)
            tried.append(server)
            seen = messages if self._sees else text_only(messages)
            outcome = await self._post(server, request_body(self._model, seen, sampling) | self._extra)
            if isinstance(outcome, Reply):
                return outcome
            problem = outcome
        raise EngineError(f"{tried[-1].url}: no reply after {TRIES} tries; last: {problem}. Is the server up?")

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.aclose()

    def _choose(self, tried: Sequence[_Server]) -> _Server:
        """The server with the fewest requests in flight; of those that work, and that were tried less, if there are."""
        now = asyncio.get_running_loop().time()
        return min(self._servers, key=lambda one: (one.rests(now), tried.count(one), one.in_flight))

    def _connections(self) -> httpx.AsyncClient:
        """The client of the running event loop: connections cannot outlive the loop that opened them."""
        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:
            limits = httpx.Limits(max_connections=None)
            self._loop = loop
            for server in self._servers:
                server.works()  # another loop may count its time from elsewhere
            self._client = httpx.AsyncClient(headers=self._headers, timeout=self._timeout, limits=limits)
        return self._client

    async def _post(self, server: _Server, body: dict[str, Any]) -> Reply | str:
        """One try: a reply, or what went wrong that another try may mend. Raises EngineError where none will."""
        connections, url = self._connections(), server.url
        server.in_flight += 1
        try:
            response = await connections.post(url, json=body)
        except httpx.TransportError as error:
            server.fails(self._first_wait)
            return f"{type(error).__name__}: {error}"
        finally:
            server.in_flight -= 1
        if response.status_code in _WORTH_RETRYING:
            server.fails(self._first_wait)
            return f"HTTP {response.status_code}: {response.text[:200]}"
        if response.status_code == httpx.codes.BAD_REQUEST and _TOO_LONG.search(response.text):
            raise PromptTooLong(f"{url}: {response.text[:500]}")
        if response.status_code == httpx.codes.BAD_REQUEST and _SEES_NOTHING.search(response.text):
            self._sees = False
            return "the model sees no images"
        if response.is_error:
            raise EngineError(f"{url}: HTTP {response.status_code}: {response.text[:500]}")
        server.works()
        return _read_reply(response)


def request_body(model: str, messages: Sequence[Message], sampling: Sampling) -> dict[str, Any]:
    """The request as it goes over the wire; `top_k` and `structured_outputs` are vLLM's names."""
    body = {
        "model": model,
        "messages": [_wire_message(message) for message in messages],
        "temperature": sampling.temperature,
        "max_tokens": sampling.max_tokens,
        "seed": sampling.seed,
    }
    if sampling.temperature > 0:
        body["top_k"] = sampling.top_k
    if sampling.pattern:
        body["structured_outputs"] = {"regex": sampling.pattern}
    return body


def _read_reply(response: httpx.Response) -> Reply | str:
    try:
        data = response.json()
        text = data["choices"][0]["message"]["content"] or ""
        usage = data.get("usage") or {}
        return Reply(text, usage.get("prompt_tokens", 0), usage.get("completion_tokens", 0))
    except (ValueError, LookupError, TypeError, AttributeError):
        return f"not a chat completion: {response.text[:200]}"


def _key(name: str) -> str:
    key = os.environ.get(name)
    if not key:
        raise ConfigError(f"llm.api_key_env: the environment variable {name} is not set; export {name}=<your key>.")
    return key


def _wire_message(message: Message) -> Message:
    """The message with each image part turned into a data URL."""
    content = message["content"]
    if isinstance(content, str):
        return message
    return {"role": message["role"], "content": [_wire_part(part) for part in content]}


def _wire_part(part: dict[str, str]) -> dict[str, Any]:
    if part["type"] != "image":
        return part
    path = Path(part["image"])
    kind = mimetypes.guess_type(path.name)[0] or "image/png"
    try:
        data = base64.b64encode(path.read_bytes()).decode()
    except OSError as error:
        raise EngineError(f"the question's image cannot be read: {error}") from error
    return {"type": "image_url", "image_url": {"url": f"data:{kind};base64,{data}"}}
