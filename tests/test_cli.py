"""The commands as a user types them, on a tiny world with tiny random models."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer import Typer
from typer.testing import CliRunner, Result

from r1_router import jsonl
from r1_router.cli import _ErrorsAsLines, app
from r1_router.embedded import EMBEDDED, is_made
from tiny_models import save_tiny_encoder, save_tiny_model


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A config with two sources of four passages each, and three questions."""
    root = tmp_path_factory.mktemp("world")
    save_tiny_model(root / "llm")
    save_tiny_encoder(root / "encoder")
    for kind in ("text", "table"):
        rows = [{"id": f"{kind}/{n}", "title": f"t{n}", "text": f"t{n}. {kind} fact {n}"} for n in range(4)]
        jsonl.rewrite(root / f"{kind}.jsonl", rows)
    hops = [{"source": "text retriever", "query": "q", "gold_ids": ["text/0"], "answer": "a"}]
    questions: list[dict[str, Any]] = [
        {"id": f"q{n}", "question": f"fact {n}?", "answers": [f"fact {n}"], "hops": hops} for n in range(3)
    ]
    jsonl.rewrite(root / "questions.jsonl", questions)
    config: dict[str, Any] = {
        "llm": {"name": "tiny", "model": "llm"},
        "sampling": {"max_tokens": 12},
        "encoders": {"text": {"kind": "sentence", "model": "encoder"}},
        "sources": [source("text retriever", "ter", "text"), source("table retriever", "tar", "table")],
        "benchmarks": {"toy": "questions.jsonl"},
        "shown": 2,
        "variants": {"untaught": {"method": "rag-text", "prompts": "guided"}},
    }
    (root / "config.yaml").write_text(yaml.safe_dump(config))
    assert command(root, "build").exit_code == 0
    return root


def source(name: str, tag: str, kind: str) -> dict[str, Any]:
    about: dict[str, Any] = {"name": name, "tag": tag, "purpose": kind, "encoder": "text", "lexical_weight": 0.5}
    return about | {"passages": f"{kind}.jsonl", "folder": f"indexes/{kind}"}


def command(world: Path, *words: str) -> Result:
    return CliRunner().invoke(app, [*words, "--config", str(world / "config.yaml")])


def test_build_is_done_once(world: Path) -> None:
    before = (world / "indexes/text/manifest.json").stat().st_mtime_ns
    result = command(world, "build")
    assert result.exit_code == 0 and "text retriever: 4 passages" in result.stdout
    assert (world / "indexes/text/manifest.json").stat().st_mtime_ns == before


@pytest.mark.parametrize("method", ["r1-router", "rag", "direct"])
def test_ask_prints_steps_and_answer(world: Path, method: str) -> None:
    result = command(world, "ask", "Which fact?", "--method", method)
    assert result.exit_code == 0, result.output
    assert "Answer" in result.stdout
    assert ("ter-0" in result.stdout) == (method == "rag")


@pytest.mark.parametrize("method", ["r1-router", "rag-text", "untaught"])
def test_run_writes_records_and_summary_and_resumes(world: Path, method: str) -> None:
    result = command(world, "run", "--benchmark", "toy", "--method", method, "--limit", "2")
    assert result.exit_code == 0, result.output
    path = world / f"results/tiny/toy_{method}.jsonl"
    assert [record["id"] for record in jsonl.read(path)] in (["q0", "q1"], ["q1", "q0"])
    assert command(world, "run", "--benchmark", "toy", "--method", method).exit_code == 0
    records = list(jsonl.read(path))
    assert sorted(record["id"] for record in records) == ["q0", "q1", "q2"]
    assert all("llm_answer" in record and "error" not in record for record in records)
    summary = json.loads((world / f"results/toy/tiny/{method}/summary.json").read_text())
    keys = {"benchmark", "method", "model", "n", "f1_recall", "token_f1", "routing_accuracy", "hit_at_5"}
    assert keys | {"seconds_per_question"} <= summary.keys()
    assert (summary["benchmark"], summary["method"], summary["model"], summary["n"]) == ("toy", method, "tiny", 3)
    assert summary["seconds_per_question"] > 0
    if method == "rag-text":
        assert summary["hit_at_5"] == {}


def test_run_tells_what_else_the_file_holds(world: Path) -> None:
    words = ("run", "--benchmark", "toy", "--method", "rag-table")
    assert "other questions" not in command(world, *words).stdout
    assert "1 results in" in (limited := command(world, *words, "--limit", "1").stdout)
    assert "beside 2 of other questions" in " ".join(limited.split())


def test_run_tells_what_failed_and_why(world: Path) -> None:
    config = yaml.safe_load((world / "config.yaml").read_text())
    config["llm"] |= {"name": "short", "context": 20}
    (world / "short.yaml").write_text(yaml.safe_dump(config))
    words = ["run", "--benchmark", "toy", "--method", "direct", "--config", str(world / "short.yaml")]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 1  # for not one was answered
    assert "3 failed and count as wrong; the first, 'q0', by PromptTooLong" in result.stderr
    assert "the same command tries them again" in result.stderr


def test_other_settings_need_a_fresh_start(world: Path) -> None:
    words = ("run", "--benchmark", "toy", "--method", "cot")
    assert command(world, *words).exit_code == 0
    refused = command(world, *words, "--seed", "9")
    assert refused.exit_code == 1 and "--fresh" in refused.output
    assert command(world, *words, "--seed", "9", "--fresh").exit_code == 0


def test_eval_scores_a_results_file(world: Path) -> None:
    record = {"id": "a", "question": "?", "answer": ["Oslo"], "llm_answer": {"thought": "", "answer": "oslo, norway"}}
    jsonl.rewrite(world / "r.jsonl", [record])
    result = CliRunner().invoke(app, ["eval", str(world / "r.jsonl")])
    assert result.exit_code == 0
    assert "f1_recall@1          100.00" in result.stdout and "token_f1@1           66.67" in result.stdout


def test_eval_of_a_folder_names_the_files_in_it(world: Path) -> None:
    (world / "made").mkdir()
    jsonl.rewrite(world / "made" / "toy_cot.jsonl", [{"id": "a"}])
    result = CliRunner().invoke(app, ["eval", str(world / "made")])
    assert result.exit_code == 1 and "that folder has toy_cot.jsonl" in result.output


def test_compare_shows_differences_and_flips(world: Path) -> None:
    for name, answer in (("a", "oslo"), ("b", "bergen")):
        record = {"id": "q", "question": "Capital?", "answer": ["Oslo"], "llm_answer": answer}
        jsonl.rewrite(world / f"{name}.jsonl", [record])
    result = CliRunner().invoke(app, ["compare", *(str(world / f"{n}.jsonl") for n in "ab"), "--metric", "f1_recall"])
    assert result.exit_code == 0
    assert "1 shared questions" in result.stdout and "Capital?" in result.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("ask", "x", "--method", "nonsense"), "no method is named 'nonsense'"),
        (("ask", "x", "--image", "none.png"), "--image: no file none.png"),
        (("run", "--benchmark", "none"), "there are toy"),
        (("train", "sft"), "the config trains no 'router'"),
    ],
)
def test_errors_are_one_line_and_exit_code_1(world: Path, words: tuple[str, ...], message: str) -> None:
    result = command(world, *words)
    assert result.exit_code == 1
    assert message in result.output and result.output.startswith("error: ")
    assert "Traceback" not in result.output


def test_train_sft_says_what_it_can_be_made_of(world: Path) -> None:
    config = yaml.safe_load((world / "config.yaml").read_text())
    sft = {"model": "llm", "data": "steps.jsonl", "output": "adapter"}
    config["training"] = {
        "router": {"kind": "router", "questions": "questions.jsonl", "sft": sft},
        "lost": {"kind": "router", "questions": "none.jsonl", "sft": sft},
        "sampled": {"kind": "grpo", "grpo": sft},
    }
    (world / "train.yaml").write_text(yaml.safe_dump(config))
    for adapter, said in (("router", "know the Factbook world alone"), ("lost", "none.jsonl"), ("sampled", "`sft`")):
        words = ["train", "sft", "--adapter", adapter, "--config", str(world / "train.yaml")]
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 1 and result.output.startswith("error: training") and said in result.output


def test_a_stop_is_one_line_and_exit_code_130() -> None:
    stopped = Typer(cls=_ErrorsAsLines)

    @stopped.command()
    def first() -> None:
        raise KeyboardInterrupt

    @stopped.command()
    def second() -> None: ...

    result = CliRunner().invoke(stopped, ["first"])
    assert result.exit_code == 130 and result.output.startswith("Stopped. A command that makes files goes on from here")


def test_help_lists_the_commands() -> None:
    result = CliRunner().invoke(app, ["--help"])
    assert result.exit_code == 0
    for name in ("ask", "run", "build", "demo", "eval", "models", "train"):
        assert name in result.stdout


def test_demo_runs_every_method_and_shows_a_trace(world: Path) -> None:
    models = Path(__file__).parents[1] / "models"
    if not all(is_made(models, model) for model in EMBEDDED):
        pytest.skip("the embedded models are not fetched; `r1-router models` does it")
    config = yaml.safe_load((world / "config.yaml").read_text()) | {"models_dir": str(models)}
    (world / "demo.yaml").write_text(yaml.safe_dump(config))
    words = ["demo", "--questions", "2", "--method", "r1-router", "--method", "rag", "--benchmark", "toy"]
    result = CliRunner().invoke(app, [*words, "--config", str(world / "demo.yaml")])
    assert result.exit_code == 0, result.output
    for part in ("r1-router", "rag", "F1-Recall", "Question  fact", "Gold    fact"):
        assert part in result.stdout
    for method in ("r1-router", "rag"):
        assert json.loads((world / f"results/toy/tiny/{method}/summary.json").read_text())["n"] >= 2


def test_shards_are_joined_in_the_order_of_the_benchmark(world: Path) -> None:
    assert command(world, "merge", "--benchmark", "toy", "--method", "direct").exit_code == 1
    first = command(world, "run", "--benchmark", "toy", "--method", "direct", "--shard", "2/2")
    assert first.exit_code == 0 and "1 results in" in first.stdout
    part = command(world, "merge", "--benchmark", "toy", "--method", "direct")
    assert part.exit_code == 0 and "2 questions have no answer yet" in part.stdout
    assert command(world, "run", "--benchmark", "toy", "--method", "direct", "--shard", "1/2").exit_code == 0
    both = command(world, "merge", "--benchmark", "toy", "--method", "direct")
    assert both.exit_code == 0 and "no answer yet" not in both.stdout
    records = list(jsonl.read(world / "results/tiny/toy_direct.jsonl"))
    assert [record["id"] for record in records] == ["q0", "q1", "q2"]
    assert json.loads((world / "results/toy/tiny/direct/summary.json").read_text())["n"] == 3


@pytest.mark.parametrize("shard", ["0/2", "3/2", "1", "a/b"])
def test_a_shard_that_is_no_part_is_an_error(world: Path, shard: str) -> None:
    result = command(world, "run", "--benchmark", "toy", "--shard", shard)
    assert result.exit_code == 1 and "--shard" in result.output


def test_an_address_that_is_taken_is_told_before_anything_is_loaded(world: Path) -> None:
    pytest.importorskip("uvicorn")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = command(world, "serve-retriever", "--source", "ter", "--port", str(port))
    assert result.exit_code == 1
    assert f"--port: cannot listen on 127.0.0.1, port {port} (Address already in use); give" in result.output
    assert "passages" not in result.output


def test_constrained_needs_an_engine_that_can(world: Path) -> None:
    result = command(world, "run", "--benchmark", "toy", "--constrained")
    assert result.exit_code == 1 and "constrained" in result.output
