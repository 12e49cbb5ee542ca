"""Runs against a model server and a retriever that misbehave: every question is answered, or marked with its reason."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from loopback import LoopbackHandler, LoopbackServer, completion, serving
from r1_router import jsonl
from r1_router.errors import KnowledgeBaseError
from r1_router.llm.openai import OpenAILLM
from r1_router.llm.scripted import ScriptedLLM
from r1_router.methods import Settings, make_method
from r1_router.prompts import load_prompts
from r1_router.run import Outcome, run_questions
from r1_router.types import LLM, TABLE, TEXT, Passage, Query, Retriever, Source
from test_run import QUESTIONS, SHELVES, reply

TESTS = Path(__file__).parent


class Server(LoopbackServer):
    """Answers well 70 times in 100; else stalls, refuses, breaks the connection, or sends garbage, as `faults` say.

    One request fails four times at most, as many as a client forgives with tries to spare.
    """

    def __init__(self, faults: tuple[str, ...]) -> None:
        super().__init__(Handler)
        self.faults, self.rng, self.failed, self.lock = faults, random.Random(3), Counter[bytes](), threading.Lock()

    def fault(self, request: bytes) -> str:
        with self.lock:
            if self.failed[request] == 4 or self.rng.random() > 0.3:
                return ""
            self.failed[request] += 1
            return self.rng.choice(self.faults)


class Handler(LoopbackHandler):
    server: Server

    def do_POST(self) -> None:
        request = self.received()
        fault = self.server.fault(request)
        good = completion(reply(json.loads(request)["messages"]))
        if fault == "stall":
            time.sleep(1.0)
        elif fault == "drop":
            self.close_connection = True
            return
        self.answer(b"<html>garbage" if fault == "garbage" else good, int(fault) if fault.isdigit() else 200)


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with serving(Server(request.param)) as running:
        yield running


def run(path: Path, llm: LLM, shelves: dict[Source, Retriever]) -> Outcome:
    method = make_method("r1-router", Settings(load_prompts("trained")))
    return run_questions(method, QUESTIONS, llm, shelves, path=path, concurrency=8)


def served(server: Server) -> OpenAILLM:
    return OpenAILLM([server.url], "m", first_wait=0.001, timeout=0.4)


@pytest.mark.parametrize(
    "server",
    [("500", "503", "429"), ("garbage", "drop"), ("stall",), ("500", "429", "garbage", "drop", "stall")],
    indirect=True,
)
def test_a_server_that_fails_three_times_in_ten_costs_no_answer(server: Server, tmp_path: Path) -> None:
    outcome = run(tmp_path / "r.jsonl", served(server), SHELVES)
    assert server.failed.total() > 5
    assert outcome.progress.errors == 0
    assert [item.answer.text for item in outcome.trajectories if item.answer] == ["oslo"] * len(QUESTIONS)


@pytest.mark.parametrize("server", [("400",)], indirect=True)
def test_what_cannot_be_answered_is_marked_with_its_reason_and_tried_again(server: Server, tmp_path: Path) -> None:
    outcome = run(tmp_path / "r.jsonl", served(server), SHELVES)
    failed = [item for item in outcome.trajectories if item.error]
    assert len(outcome.trajectories) == len(QUESTIONS) and 0 < len(failed) < len(QUESTIONS)
    assert all("HTTP 400" in str(item.error) for item in failed)
    server.faults = ("500",)
    again = run(tmp_path / "r.jsonl", served(server), SHELVES)
    assert again.progress.errors == 0 and again.progress.resumed == len(QUESTIONS) - len(failed)
    records = list(jsonl.read(tmp_path / "r.jsonl"))
    assert len(records) == len({record["id"] for record in records}) == len(QUESTIONS)


class Down:
    """A knowledge base that cannot be searched."""

    async def search(self, query: Query, k: int) -> list[Passage]:
        raise KnowledgeBaseError("indexes/text: torn.faiss cannot be read; delete the folder and build it again.")


def test_a_retriever_that_is_down_marks_every_question_and_the_next_run_answers_them(tmp_path: Path) -> None:
    down = run(tmp_path / "r.jsonl", ScriptedLLM(reply), {TEXT: Down(), TABLE: Down()})
    assert down.progress.errors == len(QUESTIONS)
    assert all("KnowledgeBaseError: indexes/text" in str(item.error) for item in down.trajectories)
    up = run(tmp_path / "r.jsonl", ScriptedLLM(reply), SHELVES)
    assert up.progress.errors == 0 and up.progress.resumed == 0
    assert len(list(jsonl.read(tmp_path / "r.jsonl"))) == len(QUESTIONS)


SLOW_RUN = """
import asyncio, sys
from pathlib import Path
from test_run import QUESTIONS, SHELVES, reply
from r1_router.llm.scripted import ScriptedLLM
from r1_router.methods import Settings, make_method
from r1_router.prompts import load_prompts
from r1_router.run import run_questions

class Slow(ScriptedLLM):
    async def chat(self, messages, *, sampling):
        await asyncio.sleep(0.02)
        return await super().chat(messages, sampling=sampling)

method = make_method("r1-router", Settings(load_prompts("trained")))
run_questions(method, QUESTIONS, Slow(reply), SHELVES, path=Path(sys.argv[1]), concurrency=2)
"""


def test_a_kill_at_any_moment_costs_at_most_the_questions_in_flight(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent / "src")])}
    answered = 0
    for _ in range(3):
        process = subprocess.Popen([sys.executable, "-c", SLOW_RUN, str(path)], env=environment)
        deadline = time.monotonic() + 60
        while lines(path) < answered + 3 and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert lines(path) >= answered + 3
        answered = lines(path)
    outcome = run(path, ScriptedLLM(reply), SHELVES)
    assert outcome.progress.resumed >= answered and outcome.progress.errors == 0
    assert len(list(jsonl.read(path))) == len(QUESTIONS)


def lines(path: Path) -> int:
    """Whole records in the file so far."""
    return path.read_bytes().count(b"\n") if path.exists() else 0
