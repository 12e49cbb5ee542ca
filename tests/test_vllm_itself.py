"""The vllm engine with vLLM itself on a CPU: run by scripts/test_vllm.sh, in an environment of its own."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import re
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
import yaml
from PIL import Image

from r1_router.prompts import load_prompts
from r1_router.prompts.messages import route_messages
from r1_router.replies import parse_plan, plan_pattern
from r1_router.types import LLM, PUBLISHED_SOURCES, Message, Plan, Question, Reply, Sampling
from tiny_models import save_tiny_vision_model

if importlib.util.find_spec("vllm") is None:
    pytest.skip("vLLM is not installed: bash scripts/test_vllm.sh", allow_module_level=True)

from r1_router.llm.transformers import TransformersLLM
from r1_router.llm.vllm import VllmLLM, never_drawn

ROOT = Path(__file__).parents[1]
MODEL = ROOT / "models" / "SmolLM2-135M-Instruct"
QUESTION = Question("q", "which river flows through the capital of france?")
MARK = re.compile(r"<\|\w+\|>")
PLAIN = route_messages(load_prompts("trained"), QUESTION, (), PUBLISHED_SOURCES)


@pytest.fixture(scope="module")
def llm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmLLM]:
    adapter = ROOT / "checkpoints" / "factbook-router"
    started = VllmLLM(
        str(MODEL), adapter=adapter, dtype="float32", context=2048, logs=tmp_path_factory.mktemp("text-logs")
    )
    yield started
    started.close()


@pytest.fixture(scope="module")
def vision_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_tiny_vision_model(tmp_path_factory.mktemp("vision"), hidden_size=128))


@pytest.fixture(scope="module")
def seeing(vision_model: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmLLM]:
    released = yaml.safe_load((ROOT / "configs" / "r1_router_7b.yaml").read_text())["llm"]["server_args"]
    logs = tmp_path_factory.mktemp("vision-logs")
    started = VllmLLM(vision_model, dtype="float32", context=1024, server_args=released, logs=logs)
    yield started
    started.close()


def ask(llm: LLM, chats: Sequence[list[Message]], sampling: Sampling) -> list[Any]:
    async def go() -> list[Any]:
        waiting = [llm.chat(chat, sampling=sampling) for chat in chats]
        return await asyncio.gather(*waiting, return_exceptions=True)

    return asyncio.run(go())


def test_the_adapter_replies_as_it_does_in_this_process(llm: VllmLLM) -> None:
    here = TransformersLLM(MODEL, adapter=ROOT / "checkpoints" / "factbook-router")
    (theirs,) = ask(llm, [PLAIN], Sampling(max_tokens=60))
    (ours,) = ask(here, [PLAIN], Sampling(max_tokens=60))
    assert theirs.text == ours.text and isinstance(parse_plan(theirs.text, PUBLISHED_SOURCES), Plan)


def test_a_reply_held_to_its_form_is_a_plan_however_it_is_drawn(llm: VllmLLM) -> None:
    sampling = Sampling(temperature=1.5, max_tokens=400, pattern=plan_pattern(PUBLISHED_SOURCES))
    drawn = ask(llm, [PLAIN] * 4, sampling)
    assert [parse_plan(reply.text, PUBLISHED_SOURCES).__class__ for reply in drawn] == [Plan] * 4


def test_pictures_reach_the_model(seeing: VllmLLM, tmp_path: Path) -> None:
    Image.new("RGB", (84, 84), "red").save(tmp_path / "red.png")
    picture = {"type": "image", "image": str(tmp_path / "red.png")}
    chats: list[list[Message]] = [
        [{"role": "user", "content": "what?"}],
        [{"role": "user", "content": [{"type": "text", "text": "what?"}, picture]}],
    ]
    without, with_picture = ask(seeing, chats, Sampling(max_tokens=20))
    assert with_picture.prompt_tokens > without.prompt_tokens + 9


def test_marks_are_never_drawn(seeing: VllmLLM, vision_model: str) -> None:
    """The server is asked to show special tokens: a random model draws one of them every twenty tokens."""
    body = {
        "model": "base",
        "messages": [{"role": "user", "content": "what?"}],
        "temperature": 2.0,
        "max_tokens": 300,
        "ignore_eos": True,
        "skip_special_tokens": False,
    }
    url = f"{seeing.urls[0]}/chat/completions"
    banned = {"logit_bias": {str(id_): -100 for id_ in never_drawn(vision_model)}}
    free, held = (
        httpx.post(url, json=body | extra, timeout=120).json()["choices"][0]["message"]["content"]
        for extra in ({}, banned)
    )
    assert MARK.search(free) and not MARK.search(held.replace("<|im_end|>", ""))


def test_a_server_that_is_killed_costs_no_chat(llm: VllmLLM) -> None:
    async def go() -> list[Any]:
        waiting = [asyncio.ensure_future(llm.chat(PLAIN, sampling=Sampling(max_tokens=200))) for _ in range(8)]
        await asyncio.sleep(1)
        for child in psutil.Process().children(recursive=True):
            if "EngineCore" in " ".join(child.cmdline()) or "api_server" in " ".join(child.cmdline()):
                os.kill(child.pid, signal.SIGKILL)
        return await asyncio.gather(*waiting, return_exceptions=True)

    replies = asyncio.run(go())
    assert all(isinstance(reply, Reply) for reply in replies), replies
    assert len({reply.text for reply in replies}) == 1
