"""Synthesis killed at random moments of every stage and run again: the files of an undisturbed run."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from subprocess import PIPE

import pytest

from loopback import serving
from r1_router import jsonl
from teacher_server import Server, build_world

ROOT = Path(__file__).parents[1]
SETS = {"own": {"generate": 24}, "mine": {"questions": "mine.jsonl"}}
FILES = ("own.questions.jsonl", "own.drops.json", "mine.drops.json", "own.questions.drops.json")
CARD = ("steps_train.jsonl", "steps_valid.jsonl", "stats.json", "card.md")
RUNNER = """
import os, sys
import bm25s, faiss, sentence_transformers  # loaded once: each run is a fork
from r1_router.cli import app
for line in sys.stdin:
    pid = os.fork()
    if pid == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        try:
            app(line.split())
        except SystemExit as end:
            os._exit(end.code or 0)
        os._exit(1)
    print(pid, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


class Runner:
    """Runs commands as processes of their own, one at a time, that can be killed."""

    def __init__(self) -> None:
        environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-c", RUNNER]
        self._process = subprocess.Popen(command, env=environment, text=True, stdin=PIPE, stdout=PIPE)

    def start(self, *words: str) -> int:
        """Begin a command; gives its process id."""
        assert self._process.stdin
        self._process.stdin.write(" ".join(words) + "\n")
        self._process.stdin.flush()
        return self._number()

    def end(self) -> int:
        """Wait for the command; gives its exit code, below 0 where it was killed."""
        return self._number()

    def close(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(20)

    def _number(self) -> int:
        assert self._process.stdout
        return int(self._process.stdout.readline())


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    runner = Runner()
    yield runner
    runner.close()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving(Server()) as running:
        yield running


@pytest.fixture(scope="module")
def undisturbed(runner: Runner, server: Server, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A world in which the whole stage ran once."""
    world = tmp_path_factory.mktemp("undisturbed")
    config = build_world(world, server.url, out="steps", sets=SETS, filters=["recall", "single", "needed"])
    assert run(runner, config) == 0
    return world


def run(runner: Runner, config: Path) -> int:
    runner.start("synthesize", "--config", str(config))
    return runner.end()


def finals(world: Path) -> dict[str, bytes]:
    return {name: (world / "steps" / name).read_bytes() for name in (*FILES, *CARD)}


def test_what_was_killed_at_random_calls_of_the_teacher_ends_the_same(
    runner: Runner, server: Server, undisturbed: Path, tmp_path: Path
) -> None:
    calls = server.calls
    world = copied(undisturbed, tmp_path)
    rng, killed_in = random.Random(7), set[str]()
    server.calls = 0
    while True:
        moment = server.calls + rng.randint(10, calls // 4)
        pid = runner.start("synthesize", "--config", str(world / "mine.yaml"))
        server.on_call = killing(pid, moment)
        code = runner.end()
        server.on_call = lambda number: None
        if code == 0:
            break
        assert code == -signal.SIGKILL
        written = sorted((world / "steps").glob("*.jsonl"), key=lambda path: path.stat().st_mtime_ns)
        killed_in |= {path.name for path in written[-1:]}
    assert len(killed_in) >= 3, killed_in  # draws, rollouts, and the filter that asks again
    assert finals(world) == finals(undisturbed)
    assert server.calls > calls


def test_a_kill_while_filtering_and_combining_leaves_whole_files(
    runner: Runner, undisturbed: Path, tmp_path: Path
) -> None:
    world, rng = copied(undisturbed, tmp_path), random.Random(8)
    shutil.copytree(undisturbed / "steps", world / "steps")
    started = time.monotonic()
    assert run(runner, world / "mine.yaml") == 0
    whole = time.monotonic() - started
    for _ in range(6):
        for path in (world / "steps").glob("steps*"):
            path.unlink()
        pid = runner.start("synthesize", "--config", str(world / "mine.yaml"))
        time.sleep(rng.uniform(0, whole))
        with suppress(ProcessLookupError):  # it may be done already
            os.kill(pid, signal.SIGKILL)
        runner.end()
        for path in (world / "steps").glob("*.kept.jsonl"):
            assert list(jsonl.read(path))
        for path in (world / "steps").glob("steps_*.jsonl"):
            assert path.read_bytes() == (undisturbed / "steps" / path.name).read_bytes()
    assert run(runner, world / "mine.yaml") == 0
    assert finals(world) == finals(undisturbed)


def killing(pid: int, moment: int) -> Callable[[int], None]:
    """Kills the process at that call of the teacher."""

    def on_call(number: int) -> None:
        if number == moment:
            os.kill(pid, signal.SIGKILL)

    return on_call


def copied(undisturbed: Path, folder: Path) -> Path:
    """The same world, in which nothing has been synthesized."""
    return Path(shutil.copytree(undisturbed, folder / "world", ignore=shutil.ignore_patterns("steps")))
