"""The house itself: its files are there, its scripts parse, its pins are pins."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

import r1_router

ROOT = Path(__file__).parents[1]
REQUIREMENTS = sorted(ROOT.glob("requirements_*.txt"))
SCRIPTS = [*sorted(ROOT.glob("*.sh")), *sorted(ROOT.glob("scripts/*.sh")), ROOT / ".ci" / "run"]
COMMANDS = [path for path in SCRIPTS if path.name != "environment.sh"]  # that one is sourced by the others
PIN = re.compile(r"[A-Za-z0-9_.-]+==[0-9][A-Za-z0-9.]*")


def pins(path: Path) -> dict[str, str]:
    """Package -> version of the file's own lines, names as the index compares them."""
    lines = [line.split("==") for line in path.read_text().splitlines() if PIN.fullmatch(line)]
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in lines}


@pytest.mark.parametrize(
    "name", ["README.md", "LICENSE", "CHANGELOG.md", "docs/reproduction.md", ".pre-commit-config.yaml", ".gitignore"]
)
def test_the_top_level_is_there(name: str) -> None:
    assert (ROOT / name).stat().st_size > 0


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_scripts_parse(path: Path) -> None:
    subprocess.run(["bash", "-n", str(path)], check=True)


@pytest.mark.parametrize("path", COMMANDS, ids=lambda path: path.name)
def test_scripts_stop_at_the_first_error_and_run_from_anywhere(path: Path) -> None:
    text = path.read_text()
    assert "set -euo pipefail" in text and 'cd "$(dirname "${BASH_SOURCE[0]}")' in text


@pytest.mark.parametrize("path", REQUIREMENTS, ids=lambda path: path.name)
def test_every_requirement_is_pinned(path: Path) -> None:
    for line in path.read_text().splitlines():
        assert not line or line.startswith(("#", "-r requirements_")) or PIN.fullmatch(line), f"{path.name}: {line!r}"


def test_the_environments_agree_on_the_model_code() -> None:
    """A model trained in one environment must behave the same in the others."""
    for name in ("torch", "transformers", "safetensors", "sentence-transformers"):
        versions = {pins(path)[name] for path in REQUIREMENTS if "dev" not in path.name}
        assert len(versions) == 1, f"{name}: {versions}"


def test_the_laptop_lock_holds_what_the_library_asks_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = project["dependencies"] + project["optional-dependencies"]["embedded"]
    names = {re.split(r"[<>=]", line)[0] for line in asked}
    assert names <= pins(ROOT / "requirements_demo.txt").keys()


def test_one_version_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == r1_router.__version__
    assert f"## {r1_router.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_no_environment_holds_torchvision_beside_the_laptop_torch() -> None:
    assert "torchvision" not in pins(ROOT / "requirements_demo.txt")


def test_a_fresh_machine_without_python_is_told_so(tmp_path: Path) -> None:
    """`find_python` with a PATH that holds only an old python3."""
    old = tmp_path / "python3"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo "Python 3.8.0" && exit 0\nexit 1\n')
    old.chmod(0o755)
    script = f"source {ROOT}/scripts/environment.sh; find_python"
    done = subprocess.run(["/bin/bash", "-c", script], env={"PATH": str(tmp_path)}, capture_output=True, text=True)
    assert done.returncode == 1
    assert "no Python 3.11" in done.stderr and "3.8.0" in done.stderr


def test_a_full_disk_is_told_before_anything_is_installed(tmp_path: Path) -> None:
    script = f"cd {tmp_path}; source {ROOT}/scripts/environment.sh; require_space 1000000000"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    assert done.returncode == 1
    assert "no space" in done.stderr and not (tmp_path / ".venv").exists()


def test_pip_without_network_is_told_so(tmp_path: Path) -> None:
    """A stand-in pip that prints what pip prints when nobody answers."""
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\necho "after connection broken by NewConnectionError" >&2\nexit 1\n')
    python.chmod(0o755)
    script = f"cd {tmp_path}; source {ROOT}/scripts/environment.sh; pip_install x"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    assert done.returncode == 1
    assert "error: no network" in done.stderr


def test_the_paper_map_points_at_things_that_exist() -> None:
    named = re.findall(
        r"`((?:src|scripts|datasets|configs|checkpoints)/[^`\s*]*)`", (ROOT / "docs/reproduction.md").read_text()
    )
    assert len(named) > 10
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_the_readme_tree_points_at_things_that_exist() -> None:
    """The annotated tree: names before the first wide gap of a line; indented ones lie under src/r1_router."""
    tree = (ROOT / "README.md").read_text().split("## What is where")[1].split("```")[1]
    missing = []
    for line in tree.strip("\n").splitlines():
        base = ROOT / "src" / "r1_router" if line.startswith(" ") else ROOT
        names = re.split(r"\s{2,}", line.strip())[0].split()
        missing += [name for name in names if not (base / name).exists()]
    assert missing == []
