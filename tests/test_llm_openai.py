"""The OpenAI-compatible client against a real HTTP server on loopback."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from loopback import LoopbackHandler, LoopbackServer, completion, serving
from r1_router.errors import ConfigError, EngineError, PromptTooLong
from r1_router.llm.openai import TRIES, OpenAILLM
from r1_router.types import Sampling

GOOD = completion("hello", prompt_tokens=7, completion_tokens=2)


class Server(LoopbackServer):
    """Answers with `script` in order (status, body), the last one for ever, and keeps what it was sent."""

    def __init__(self) -> None:
        super().__init__(Handler)
        self.script: list[tuple[int, bytes]] = [(200, GOOD)]
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []


class Handler(LoopbackHandler):
    server: Server

    def do_POST(self) -> None:
        self.server.bodies.append(json.loads(self.received()))
        self.server.headers.append({"path": self.path, **dict(self.headers)})
        status, body = self.server.script.pop(0) if len(self.server.script) > 1 else self.server.script[0]
        self.answer(body, status)


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(Server()) as running:
        yield running


def ask(llm: OpenAILLM, content: Any = "hi", sampling: Sampling | None = None) -> Any:
    async def go() -> Any:
        try:
            return await llm.chat([{"role": "user", "content": content}], sampling=sampling or Sampling(seed=5))
        finally:
            await llm.close()

    return asyncio.run(go())


def test_reply_and_token_counts(server: Server) -> None:
    reply = ask(OpenAILLM([server.url], "some-model"), sampling=Sampling(1.0, 20, 99, 5))
    assert (reply.text, reply.prompt_tokens, reply.completion_tokens) == ("hello", 7, 2)
    body = server.bodies[0]
    assert server.headers[0]["path"] == "/v1/chat/completions"
    assert (body["model"], body["max_tokens"], body["seed"], body["top_k"]) == ("some-model", 99, 5, 20)


def test_image_goes_as_data_url(server: Server, tmp_path: Path) -> None:
    (tmp_path / "flag.png").write_bytes(b"\x89PNG")
    ask(
        OpenAILLM([server.url], "m"),
        [{"type": "text", "text": "t"}, {"type": "image", "image": str(tmp_path / "flag.png")}],
    )
    assert server.bodies[0]["messages"][0]["content"] == [
        {"type": "text", "text": "t"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}},
    ]


@pytest.mark.parametrize(
    "words",
    ["base is not a multimodal model", "This model does not support image input", "image input is not supported"],
)
def test_a_model_that_sees_no_images_gets_the_text_alone(server: Server, tmp_path: Path, words: str) -> None:
    (tmp_path / "flag.png").write_bytes(b"picture")
    parts = [{"type": "text", "text": "whose?"}, {"type": "image", "image": str(tmp_path / "flag.png")}]
    server.script = [(400, words.encode()), (400, words.encode()), (200, GOOD)]
    llm = OpenAILLM([server.url], "m", first_wait=0.001)

    async def two_at_once_and_one_more() -> None:
        chats = [llm.chat([{"role": "user", "content": parts}], sampling=Sampling()) for _ in range(2)]
        await asyncio.gather(*chats)
        await llm.chat([{"role": "user", "content": parts}], sampling=Sampling())

    asyncio.run(two_at_once_and_one_more())
    contents = [body["messages"][0]["content"] for body in server.bodies]
    assert [content == "whose?" for content in contents] == [False, False, True, True, True]


@pytest.mark.parametrize("bad", [(429, b"slow down"), (500, b"oops"), (200, b"garbage"), (200, b'{"choices": []}')])
def test_passing_faults_are_tried_again(server: Server, bad: tuple[int, bytes]) -> None:
    server.script = [bad, bad, *server.script]
    assert ask(OpenAILLM([server.url], "m", first_wait=0.001)).text == "hello"
    assert len(server.bodies) == 3


def test_lasting_faults_give_up_with_the_reason(server: Server) -> None:
    server.script = [(503, b"loading the model")]
    with pytest.raises(EngineError, match="loading the model"):
        ask(OpenAILLM([server.url], "m", first_wait=0.001))
    assert len(server.bodies) == TRIES


def test_a_refused_request_is_not_repeated(server: Server) -> None:
    server.script = [(400, b"too long")]
    with pytest.raises(EngineError, match="too long"):
        ask(OpenAILLM([server.url], "m"))
    assert len(server.bodies) == 1


@pytest.mark.parametrize(
    "words",
    [
        "This model's maximum context length is 2048 tokens. However, you requested 2100 tokens",
        "the request exceeds the available context size (2048 tokens)",
    ],
)
def test_a_prompt_too_long_has_an_error_of_its_own(server: Server, words: str) -> None:
    server.script = [(400, json.dumps({"error": {"message": words}}).encode())]
    with pytest.raises(PromptTooLong):
        ask(OpenAILLM([server.url], "m"))


def test_server_that_is_down() -> None:
    with pytest.raises(EngineError, match="Is the server up"):
        ask(OpenAILLM(["http://127.0.0.1:1/v1"], "m", first_wait=0.001))


def test_key_comes_from_the_environment(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TEST_LLM_KEY", raising=False)
    with pytest.raises(ConfigError, match="TEST_LLM_KEY"):
        OpenAILLM([server.url], "m", api_key_env="TEST_LLM_KEY")
    monkeypatch.setenv("TEST_LLM_KEY", "k123")
    ask(OpenAILLM([server.url], "m", api_key_env="TEST_LLM_KEY"))
    assert server.headers[0]["Authorization"] == "Bearer k123"


def test_one_client_serves_several_event_loops(server: Server) -> None:
    """Each method of a run has a loop of its own, and a connection cannot outlive the loop that opened it."""
    llm = OpenAILLM([server.url], "m")
    messages = [{"role": "user", "content": "hi"}]
    replies = [asyncio.run(llm.chat(messages, sampling=Sampling())) for _ in range(2)]
    assert [reply.text for reply in replies] == ["hello", "hello"]


def test_several_servers_share_the_load_and_stand_in_for_one_that_is_down(server: Server) -> None:
    down = "http://127.0.0.1:1/v1"
    llm = OpenAILLM([down, server.url], "m", first_wait=0.001)

    async def go() -> list[str]:
        chats = [llm.chat([{"role": "user", "content": "hi"}], sampling=Sampling()) for _ in range(6)]
        return [reply.text for reply in await asyncio.gather(*chats)]

    assert asyncio.run(go()) == ["hello"] * 6
    assert len(server.bodies) == 6


class Slow(Handler):
    """Answers so late that servers which refuse at once look less busy."""

    def do_POST(self) -> None:
        time.sleep(0.2)
        super().do_POST()


def test_servers_that_refuse_at_once_draw_no_requests_away_from_the_busy_one_that_works() -> None:
    class Busy(Server):
        request_queue_size = 64

    busy = Busy()
    busy.RequestHandlerClass = Slow
    with serving(busy):
        llm = OpenAILLM(["http://127.0.0.1:1/v1", "http://127.0.0.1:2/v1", busy.url], "m", first_wait=0.01)

        async def go() -> list[str]:
            chats = [llm.chat([{"role": "user", "content": "hi"}], sampling=Sampling()) for _ in range(48)]
            return [reply.text for reply in await asyncio.gather(*chats)]

        assert asyncio.run(go()) == ["hello"] * 48
    assert len(busy.bodies) == 48


def test_a_pattern_goes_as_structured_output(server: Server) -> None:
    ask(OpenAILLM([server.url], "m"), sampling=Sampling(pattern="a+"))
    assert server.bodies[0]["structured_outputs"] == {"regex": "a+"}
    ask(OpenAILLM([server.url], "m"))
    assert "structured_outputs" not in server.bodies[1]
