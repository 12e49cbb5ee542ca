"""Servers that a run starts: flags, restarts, several at once, none left over; the program is a stand-in for vLLM."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from r1_router.errors import ConfigError, EngineError, MissingDependency, PromptTooLong
from r1_router.llm import vllm
from r1_router.llm.vllm import MOST_BANNED, VllmLLM, device_shares, never_drawn, server_arguments
from r1_router.types import Reply, Sampling
from tiny_models import save_tiny_model

PROGRAM = (sys.executable, str(Path(__file__).with_name("fake_model_server.py")))


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm, "WATCH_SECONDS", 0.05)
    monkeypatch.setattr(vllm, "FIRST_WAIT", 0.001)


@pytest.fixture
def llm(tmp_path: Path) -> Iterator[VllmLLM]:
    started = VllmLLM("some/model", logs=tmp_path / "logs", command=PROGRAM)
    yield started
    started.close()


def ask(llm: VllmLLM, *texts: str) -> list[Any]:
    async def go() -> list[Any]:
        chats = [llm.chat([{"role": "user", "content": text}], sampling=Sampling()) for text in texts]
        return await asyncio.gather(*chats, return_exceptions=True)

    return asyncio.run(go())


def test_a_chat_and_the_flags_of_the_server(llm: VllmLLM, tmp_path: Path) -> None:
    (reply,) = ask(llm, "hello")
    assert isinstance(reply, Reply) and reply.text.startswith("base ") and reply.text.endswith(" hello")
    log = (tmp_path / "logs" / "server-0.log").read_text()
    assert "--model some/model" in log and "--enable-prefix-caching" in log and "--generation-config vllm" in log


def test_the_chat_that_killed_its_server_is_asked_anew(llm: VllmLLM, tmp_path: Path) -> None:
    before, *_ = ask(llm, "hello")
    (reply,) = ask(llm, f"die once {tmp_path / 'marker'}")
    assert isinstance(reply, Reply) and reply.text.split()[1] != before.text.split()[1]


def test_a_server_that_dies_each_time_is_given_up_with_its_log(llm: VllmLLM) -> None:
    (error,) = ask(llm, "die")
    assert isinstance(error, EngineError) and "server-0.log" in str(error)


def test_a_refused_request_is_an_error_at_once_and_the_server_lives(llm: VllmLLM) -> None:
    refused, reply = ask(llm, "refuse", "hello")
    assert isinstance(refused, EngineError) and "400" in str(refused)
    assert isinstance(reply, Reply)


def test_a_prompt_too_long_is_one_though_another_server_is_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vllm, "RESTARTS", 0)
    llm = VllmLLM("m", servers=2, logs=tmp_path, command=PROGRAM)
    try:
        assert isinstance(ask(llm, f"die once {tmp_path / 'marker'}")[0], Reply)
        assert isinstance(ask(llm, "too long")[0], PromptTooLong)
    finally:
        llm.close()


def test_two_servers_share_the_chats(tmp_path: Path) -> None:
    llm = VllmLLM("m", servers=2, logs=tmp_path, command=PROGRAM)
    try:
        replies = ask(llm, *"abcdefgh")
        assert len({reply.text.split()[1] for reply in replies}) == 2
    finally:
        llm.close()


def test_a_server_that_cannot_start_tells_its_last_words(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="no memory for the model"):
        VllmLLM("m", server_args=("--die-at-start",), logs=tmp_path, command=PROGRAM)


def test_a_killed_run_leaves_no_server(tmp_path: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path; from r1_router.llm.vllm import VllmLLM; "
        f"llm = VllmLLM('m', logs=Path({str(tmp_path)!r}), command={PROGRAM!r}); "
        "print(llm._processes[0].url, flush=True); time.sleep(60)"
    )
    run = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert run.stdout is not None
    port = int(run.stdout.readline().rsplit(":", 1)[1])
    assert listens(port)
    os.kill(run.pid, signal.SIGKILL)
    run.wait()
    deadline = time.monotonic() + 10
    while listens(port) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not listens(port)


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize("rank", [12, 16])
def test_an_adapter_is_served_beside_its_model_with_room_for_its_rank(tmp_path: Path, rank: int) -> None:
    (tmp_path / "adapter_config.json").write_text(json.dumps({"r": rank}))
    arguments = server_arguments("m", tmp_path, "bfloat16", 4096)
    for flag, value in (
        ("--max-lora-rank", "16"),
        ("--lora-modules", f"adapted={tmp_path}"),
        ("--max-model-len", "4096"),
    ):
        assert arguments[arguments.index(flag) + 1] == value


def test_of_too_many_ids_the_marks_are_banned_first(tmp_path: Path) -> None:
    config = save_tiny_model(tmp_path) / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"vocab_size": 3000}))
    banned = never_drawn(str(tmp_path))
    assert len(banned) == MOST_BANNED and {256, 257, 259} <= set(banned) and 258 not in banned


def test_servers_share_the_visible_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,6,7")
    assert device_shares(2) == [{"CUDA_VISIBLE_DEVICES": "4,5"}, {"CUDA_VISIBLE_DEVICES": "6,7"}]
    assert device_shares(1) == [{}]
    with pytest.raises(ConfigError, match="4 are visible"):
        device_shares(5)


def test_without_vllm_the_fix_is_named(tmp_path: Path) -> None:
    if importlib.util.find_spec("vllm"):
        pytest.skip("vLLM is installed")
    with pytest.raises(MissingDependency, match="pip install"):
        VllmLLM("m", logs=tmp_path)
