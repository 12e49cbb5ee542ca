"""README's section on step data runs as written, against an OpenAI-compatible server on loopback."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from loopback import serving
from r1_router import jsonl
from r1_router.cli import app
from teacher_server import Server, build_world

README = (Path(__file__).parents[1] / "README.md").read_text("utf-8")
SECTION = README.partition("## Step data for training\n")[2].partition("\n## ")[0]


def block(language: str) -> str:
    """The section's one block of that language."""
    (found,) = re.findall(rf"```{language}\n(.*?)```", SECTION, re.DOTALL)
    return str(found)


def test_the_section_runs_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with serving(Server()) as server:
        config = build_world(tmp_path, server.url)
        shown = block("yaml")
        assert "http://localhost:8000/v1" in shown
        told = yaml.safe_load(shown.replace("http://localhost:8000/v1", server.url))
        config.write_text(yaml.safe_dump(yaml.safe_load(config.read_text()) | told))
        for line in block("bash").splitlines():
            program, *words = shlex.split(line, comments=True)
            assert program == "r1-router"
            done = CliRunner().invoke(app, words)
            assert done.exit_code == 0, f"{line}\n{done.output}"
    for folder in (tmp_path / "runs", tmp_path / "runs" / "mine", tmp_path / "runs" / "generated"):
        assert list(jsonl.read(folder / "steps_train.jsonl")) and (folder / "card.md").is_file()
    assert list(jsonl.read(tmp_path / "runs" / "mine" / "flat.jsonl"))
