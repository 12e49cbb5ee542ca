"""Staged runs: the same trajectories as the whole loop's, resumed stage by stage; `bash evaluation.sh` end to end."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from loopback import LoopbackHandler, LoopbackServer, completion, serving
from r1_router import jsonl
from r1_router.cli import app
from r1_router.commands import evaluate
from r1_router.config import load_config
from r1_router.deployment import Deployment
from r1_router.errors import ConfigError, DataError
from r1_router.llm.content import text_of
from r1_router.methods import Settings, make_method
from r1_router.methods.staged import model_stage, retrieval_stage
from r1_router.prompts import load_prompts
from r1_router.stages import generate, retrieve
from r1_router.types import LLM, PUBLISHED_SOURCES, Message, Question, Reply, Sampling, Trajectory, Usage
from test_cli import source
from test_methods import GOOD_ANSWER, GOOD_PLAN, STOP, finished, shelves
from tiny_models import save_tiny_encoder

ROOT = Path(__file__).parents[1]


class SeededLLM:
    """Replies that depend on the call's seed alone: plans of any source, stops, malformed replies, answers."""

    async def chat(self, messages: Sequence[Message], *, sampling: Sampling) -> Reply:
        draw = sampling.seed % 7
        if "<answer>" in text_of(messages[0]) or "evidence" in text_of(messages[0]):
            text = "malformed" if draw == 0 else GOOD_ANSWER.format(sampling.seed)
        else:
            plan = GOOD_PLAN.format(f"sub {sampling.seed}?", PUBLISHED_SOURCES[sampling.seed % 3].name)
            text = "malformed" if draw == 0 else STOP if draw < 3 else plan
        return Reply(text, 3, 2)


def timeless(trajectory: Trajectory) -> Trajectory:
    return replace(trajectory, usage=replace(trajectory.usage, seconds=0.0))


def through_json(trajectory: Trajectory) -> Trajectory:
    return Trajectory.from_json(json.loads(json.dumps(trajectory.to_json())))


def test_stages_give_the_trajectories_of_the_whole_loop() -> None:
    settings = Settings(load_prompts("guided"), Sampling(temperature=1.0, seed=11))
    llm: LLM = SeededLLM()
    lengths = set()
    for number in range(60):
        question = Question(f"q{number}", f"Question {number}?", ["x"])
        whole = finished(make_method("r1-router", settings)(question, llm, shelves()))
        staged = Trajectory(question)
        for step in range(settings.max_steps + 1):
            stage = model_stage(settings, step, {question.id: staged} if step else {})
            staged = through_json(finished(stage(question, llm, shelves())))
            if step < settings.max_steps:
                search = retrieval_stage(settings, {question.id: staged})
                staged = through_json(finished(search(question, llm, shelves())))
        assert timeless(staged) == timeless(through_json(whole))
        assert staged.usage != Usage() and staged.usage.malformed == whole.usage.malformed
        lengths.add(len(whole.steps))
    assert lengths == {1, 2, 3}


class Handler(LoopbackHandler):
    """A model behind an OpenAI-compatible server: asks the text base once, then the table, stops, answers."""

    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.received())
        self.server.calls += 1
        system, user = (text_of(body["messages"][at]) for at in (0, -1))
        if "poison" in user:
            return self.answer(b"no such picture", 422)
        reply = GOOD_ANSWER.format("fact 1")
        if "retriever" in system:
            asked = user.count("Sub-question")
            reply = [GOOD_PLAN.format("t1?", "text retriever"), GOOD_PLAN.format("t2?", "table retriever"), STOP][asked]
        self.answer(completion(reply))


class Server(LoopbackServer):
    calls = 0


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(Server(Handler)) as running:
        yield running


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two small knowledge bases, built, and three questions."""
    root = tmp_path_factory.mktemp("staged")
    save_tiny_encoder(root / "encoder")
    for kind in ("text", "table"):
        rows = [{"id": f"{kind}/{n}", "title": f"t{n}", "text": f"t{n}. {kind} fact {n}"} for n in range(4)]
        jsonl.rewrite(root / f"{kind}.jsonl", rows)
    asked = [{"id": f"q{n}", "question": f"fact {n}?", "answers": [f"fact {n}"]} for n in range(3)]
    jsonl.rewrite(root / "questions.jsonl", asked)
    write_config(root, "http://127.0.0.1:1/v1")
    result = CliRunner().invoke(app, ["build", "--config", str(root / "config.yaml")])
    assert result.exit_code == 0, result.output
    return root


@pytest.fixture
def world(built: Path, server: Server, tmp_path: Path) -> Path:
    shutil.copytree(built, tmp_path / "world")
    write_config(tmp_path / "world", server.url)
    return tmp_path / "world"


def write_config(root: Path, url: str) -> None:
    config: dict[str, Any] = {
        "llm": {"name": "served", "model": "m", "engine": "openai", "base_url": url},
        "encoders": {"text": {"kind": "sentence", "model": "encoder"}},
        "sources": [source("text retriever", "ter", "text"), source("table retriever", "tar", "table")],
        "benchmarks": {"factbook": "questions.jsonl", "own": "questions.jsonl"},
        "shown": 2,
    }
    (root / "config.yaml").write_text(yaml.safe_dump(config))


def evaluation(world: Path, benchmark: str = "factbook", **settings: str) -> subprocess.CompletedProcess[str]:
    environment: dict[str, str] = os.environ | {
        "CONFIG": str(world / "config.yaml"),
        "ROUTER": sys.executable,
        "PYTHONPATH": str(ROOT / "src"),
        **settings,
    }
    command = ["bash", str(ROOT / "evaluation.sh"), benchmark]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)


def answers(path: Path) -> dict[str, Any]:
    return {row["id"]: timeless(Trajectory.from_json(row)).to_json() for row in jsonl.read(path)}


def test_evaluation_sh_whole_and_staged(world: Path, server: Server) -> None:
    whole = evaluation(world)
    assert whole.returncode == 0, whole.stderr
    assert "factbook r1-router eval" in whole.stdout and "F1-Recall" in whole.stdout
    calls = server.calls
    staged = evaluation(world, STAGED="1")
    assert staged.returncode == 0, staged.stderr
    assert "factbook r1-router3 eval" in staged.stdout
    assert server.calls == 2 * calls
    folder = world / "results" / "served"
    assert answers(folder / "factbook_r1-router3.jsonl") == answers(folder / "factbook_r1-router.jsonl")
    assert evaluation(world, STAGED="1").returncode == 0
    assert server.calls == 2 * calls  # all stages were there already


def deployment(world: Path) -> Deployment:
    return Deployment(load_config(world / "config.yaml"))


def test_a_stage_cut_short_goes_on_where_it_stopped(world: Path, server: Server) -> None:
    path = generate(deployment(world), "factbook", "r1-router", 0)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text(lines[0] + lines[1][:20])
    calls = server.calls
    with pytest.raises(DataError, match="2 questions are not there"):
        retrieve(deployment(world), "factbook", "r1-router", 0)
    generate(deployment(world), "factbook", "r1-router", 0)
    assert server.calls == calls + 2
    assert retrieve(deployment(world), "factbook", "r1-router", 0).is_file()
    (world / "encoder").rename(world / "put away")
    assert retrieve(deployment(world), "factbook", "r1-router", 0).is_file()  # nothing is left to search for


def test_a_whole_run_that_is_through_loads_nothing(world: Path, server: Server) -> None:
    questions = deployment(world).questions("factbook")
    first = evaluate(deployment(world), "factbook", "r1-router", questions)
    calls = server.calls
    (world / "encoder").rename(world / "put away")
    assert evaluate(deployment(world), "factbook", "r1-router", questions).summary == first.summary
    assert server.calls == calls


def test_a_question_that_fails_is_passed_on_with_its_reason(world: Path, server: Server) -> None:
    asked = list(jsonl.read(world / "questions.jsonl"))
    jsonl.rewrite(world / "questions.jsonl", [*asked, {"id": "q3", "question": "poison?", "answers": ["x"]}])
    step = deployment(world)
    for number in range(step.config.max_steps):
        generate(step, "own", "r1-router", number)
        retrieve(step, "own", "r1-router", number)
    records = {row["id"]: row for row in jsonl.read(generate(step, "own", "r1-router", step.config.max_steps))}
    assert "HTTP 422" in records["q3"]["error"] and "EngineError: EngineError" not in records["q3"]["error"]
    assert [records[f"q{n}"].get("error") for n in range(3)] == [None] * 3


def test_a_stage_does_not_go_on_from_one_of_other_settings(world: Path, server: Server) -> None:
    generate(deployment(world), "own", "r1-router", 0)
    with open(world / "config.yaml", "a", encoding="utf-8") as config:
        config.write("retrieved: 7\n")
    with pytest.raises(ConfigError, match=r"step0\.jsonl was made by other settings \(retrieved: 10 then, 7 now\)"):
        retrieve(deployment(world), "own", "r1-router", 0)


def test_evaluation_sh_takes_steps_and_folder_from_the_config_and_starts_afresh(world: Path, server: Server) -> None:
    config = world / "config.yaml"
    config.write_text(config.read_text() + "max_steps: 1\nresults_dir: elsewhere\n")
    planned = generate(deployment(world), "own", "r1-router", 0)
    config.write_text(config.read_text().replace("shown: 2", "shown: 1"))
    with pytest.raises(ConfigError, match=r"other settings \(shown: 2 then, 1 now\); --fresh puts it aside"):
        generate(deployment(world), "own", "r1-router", 0)
    staged = evaluation(world, "own", STAGED="1", FRESH="1")
    assert staged.returncode == 0 and "own r1-router1 eval" in staged.stdout, staged.stderr
    assert (world / "elsewhere" / "served" / "own_r1-router1.jsonl").is_file()
    assert planned.with_suffix(".1.jsonl").is_file()


@pytest.mark.parametrize(
    ("stage", "method", "step", "error", "message"),
    [
        (generate, "r1-router", 1, DataError, "run the stage before"),
        (retrieve, "r1-router", 0, DataError, "run the stage before"),
        (generate, "r1-router", 4, ConfigError, "0 to 3"),
        (retrieve, "r1-router", 3, ConfigError, "0 to 2"),
        (generate, "ircot", 0, ConfigError, "only r1-router"),
    ],
)
def test_what_cannot_be_staged_is_an_error_that_names_the_fix(
    world: Path, stage: Callable[..., Path], method: str, step: int, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        stage(deployment(world), "factbook", method, step)
