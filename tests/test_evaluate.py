"""The published command: its figures on the golden files, its faults, and that it runs from src/ as it stands."""

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy
import pytest

from r1_router.benchmarks import PUBLISHED
from r1_router.metrics import METRICS

ROOT = Path(__file__).parents[1]
GOLDEN = ROOT.parent / "shared" / "golden"
needs_golden = pytest.mark.skipif(not GOLDEN.is_dir(), reason="the golden data (../shared/golden) is not here")
ROW = {"question": "is 5 more than 4?", "answer": "yes", "llm_answer": {"thought": "", "answer": "yes"}}


def load() -> ModuleType:
    """The script as a module, wherever the library itself is found."""
    spec = importlib.util.spec_from_file_location("evaluate", ROOT / "src" / "evaluate.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["evaluate"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


evaluate = load()


def golden_results(root: Path, form: str) -> list[dict[str, Any]]:
    """The golden predictions of one form under the names that the command reads; gives what is known of them."""
    files = [
        file for file in json.loads((GOLDEN / "evaluation_datasets.json").read_text())["files"] if file["form"] == form
    ]
    (root / form).mkdir(parents=True)
    for file in files:
        shutil.copy(GOLDEN / file["file"], root / form / f"{file['dataset']}_r1-router3.jsonl")
    return files


def write(root: Path, dataset: str, *rows: dict[str, Any]) -> Path:
    path = root / "m" / f"{dataset}_r1-router3.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@needs_golden
@pytest.mark.parametrize("form", ["dict", "str", "mixed"])
def test_the_published_figures_are_printed(form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = golden_results(tmp_path, form)
    assert len(files) == 6
    out = tmp_path / "figures.json"
    argv = ["--dataset_name", "all", "--method", "r1-router3", "--model_name", form, "--results_root", str(tmp_path)]
    assert evaluate.main([*argv, "--metrics", "precision,f1", "--json", str(out)]) == 0
    printed = capsys.readouterr().out.splitlines()
    datasets = json.loads(out.read_text())["datasets"]
    for file in files:
        at = printed.index(file["printed_first_line"])
        assert printed[at + 1].startswith(f"F1-Recall:  {file['f1_recall']:.2f}  [")
        found = datasets[file["dataset"]]
        assert found["rows"] == file["rows"]
        assert found["notes"]["empty answers, scored as wrong"] == file["empty_predictions"]
        means = {name: one["mean"] for name, one in found["metrics"].items()}
        expected = {name: file[f"mean_{name.removeprefix('f1_')}"] for name in ("f1_recall", "precision", "f1")}
        assert means == pytest.approx(expected, abs=1e-9)


@needs_golden
def test_it_runs_from_src_without_the_package_installed(tmp_path: Path) -> None:
    """-S leaves installed packages out; numpy's folder is given back, after the script's own."""
    golden_results(tmp_path, "mixed")
    argv = ["--dataset_name", "tabfact", "--method", "r1-router3", "--results_root", str(tmp_path)]
    command = [sys.executable, "-S", "evaluate.py", *argv]
    environment = {"PYTHONPATH": str(Path(numpy.__file__).parents[1])}
    done = subprocess.run(command, cwd=ROOT / "src", capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("tabfact r1-router3 eval:\nF1-Recall:  82.00  [")


def test_every_metric_is_in_the_json_with_its_version(tmp_path: Path) -> None:
    path = write(tmp_path, "tabfact", ROW, ROW | {"llm_answer": "yes or no"})
    out = tmp_path / "new" / "figures.json"
    assert evaluate.main(["--dataset_name", "tabfact", "--results_root", str(tmp_path), "--json", str(out)]) == 0
    report = json.loads(out.read_text())
    assert (report["model"], report["method"], report["seed"], report["errors"]) == ("m", "r1-router3", 0, {})
    found = report["datasets"]["tabfact"]
    assert (found["file"], found["rows"], found["benchmark_rows"]) == (str(path), 2, 1000)
    assert {name: one["version"] for name, one in found["metrics"].items()} == {
        n: m.version for n, m in METRICS.items()
    }
    assert found["metrics"]["f1_recall"]["mean"] == 1.0
    assert found["metrics"]["yes_no"]["mean"] == 0.5
    assert found["metrics"]["numeric"]["n"] == 0


def test_a_data_set_that_fails_does_not_stop_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, "tabfact", ROW)
    write(tmp_path, "webqa", {"question": "q", "llm_answer": "x"})
    out = tmp_path / "figures.json"
    assert evaluate.main(["--results_root", str(tmp_path), "--metrics", "f1", "--json", str(out)]) == 1
    shown = capsys.readouterr()
    assert "tabfact r1-router3 eval:\nF1-Recall:  100.00" in shown.out
    assert "webqa_r1-router3.jsonl, line 1: no gold" in shown.err
    assert "no results file" in shown.err and "infoseek_r1-router3.jsonl" in shown.err
    assert set(json.loads(out.read_text())["errors"]) == set(PUBLISHED) - {"tabfact"}


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--dataset_name", "hotpotqa"], "no benchmark is named 'hotpotqa'"),
        (["--metrics", "f1,bleu"], "no metric is named 'bleu'"),
        (["--model_name", "../m"], "cannot be part of a file name"),
        (["--results_root", "nowhere"], "no model"),
    ],
)
def test_wrong_flags_are_one_line_and_exit_1(
    argv: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, "tabfact", ROW)
    assert evaluate.main(["--dataset_name", "tabfact", "--results_root", str(tmp_path), *argv]) == 1
    shown = capsys.readouterr()
    assert message in shown.err and shown.out == ""


def test_verdicts_of_a_judge_make_no_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, "tabfact", ROW)
    (tmp_path / "judged").mkdir()
    for folder in (path.parent, tmp_path / "judged"):
        (folder / "tabfact_r1-router3.judge.jsonl").write_text('{"key": "k", "verdict": "right"}\n')
    assert evaluate.main(["--dataset_name", "tabfact", "--results_root", str(tmp_path)]) == 0
    assert "  1 of 1000 questions" in capsys.readouterr().out


FAULTS = {
    "missing": (None, "no results file"),
    "empty": ("", "holds no record"),
    "torn": (json.dumps(ROW) + '\n{"question": "q", "ans', ", line 2: not JSON"),
    "gold absent": ('\n{"question": "q", "llm_answer": "x"}\n', ", line 2: no gold"),
    "gold NaN": ('{"question": "q", "answer": NaN, "llm_answer": "x"}\n', ", line 1: answer: a gold is"),
    "id twice": (json.dumps(ROW | {"id": 1}) + "\n" + json.dumps(ROW | {"id": 1}) + "\n", ", line 2: the id '1'"),
}


@pytest.mark.parametrize(("text", "message"), FAULTS.values(), ids=FAULTS)
def test_a_bad_file_is_named_with_its_line_and_scores_nothing(
    text: str | None, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, "tabfact")
    if text is None:
        path.unlink()
    else:
        path.write_text(text)
    argv = ["--dataset_name", "tabfact", "--model_name", "m", "--results_root", str(tmp_path)]
    assert evaluate.main(argv) == 1
    shown = capsys.readouterr()
    assert message in shown.err and str(path) in shown.err
    assert shown.out == ""


def test_blank_lines_and_passed_over_nan_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    odd = '\n{"question": "q", "answer": "no", "llm_answer": "no", "x": NaN}\n'
    write(tmp_path, "tabfact").write_text(json.dumps(ROW) + "\n" + odd)
    assert evaluate.main(["--dataset_name", "tabfact", "--results_root", str(tmp_path), "--metrics", "yes_no"]) == 0
    shown = capsys.readouterr().out
    assert "  blank lines: 1" in shown and "  records with NaN where nothing is scored: 1" in shown
    assert "yes_no@1             100.00" in shown and "n=2" in shown


@pytest.mark.parametrize("name", ["mine", "questions/mine.jsonl"])
def test_results_of_a_benchmark_of_ones_own_are_scored(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, "mine", ROW)
    assert evaluate.main(["--dataset_name", name, "--results_root", str(tmp_path)]) == 0
    assert "mine r1-router3 eval:\nF1-Recall:  100.00" in (shown := capsys.readouterr().out)
    assert "  1 questions\n" in shown


def test_a_model_must_be_named_where_there_are_several(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, "tabfact", ROW)
    shutil.copytree(tmp_path / "m", tmp_path / "other")
    assert evaluate.main(["--dataset_name", "tabfact", "--results_root", str(tmp_path)]) == 1
    assert "results of m, other; name one" in capsys.readouterr().err
