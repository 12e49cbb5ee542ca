"""The README's commands: each exists, takes the flags shown, and names files that are there."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from r1_router.cli import app

ROOT = Path(__file__).parents[1]
MADE_BY_COMMANDS = ("results/", ".venv/", "runs/")
GROUPS = ("train", "prompts", "datasets", "corpus", "index", "steps")


def shell_lines() -> list[str]:
    blocks = re.findall(r"```bash\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line.strip()]


LINES = shell_lines()


def test_there_are_commands() -> None:
    assert sum(line.startswith("r1-router") for line in LINES) >= 5
    assert "bash scripts/demo.sh" in "\n".join(LINES) and "bash scripts/test.sh" in "\n".join(LINES)


@pytest.mark.parametrize("line", [line for line in LINES if line.startswith("r1-router")])
def test_a_command_exists_with_its_flags(line: str) -> None:
    words = shlex.split(line, comments=True)[1:]
    command = words[:2] if words[0] in GROUPS else words[:1]
    result = CliRunner().invoke(app, [*command, "--help"], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    for flag in (word for word in words if word.startswith("--")):
        assert flag.partition("=")[0] in result.output


@pytest.mark.parametrize("line", LINES)
def test_files_named_are_there(line: str) -> None:
    for word in shlex.split(line, comments=True):
        if re.fullmatch(r"[\w.-]+/[\w./-]+", word) and not word.startswith(MADE_BY_COMMANDS):
            assert (ROOT / word).exists(), word


def test_the_published_scoring_command_runs_from_src() -> None:
    command = [sys.executable, "evaluate.py", "--help"]
    done = subprocess.run(command, cwd=ROOT / "src", capture_output=True, text=True, check=True)
    assert "--dataset_name" in done.stdout and "--method" in done.stdout
