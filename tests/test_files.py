"""Atomic writes, hashes, and the lock that lets one maker in at a time."""

from __future__ import annotations

import hashlib
import threading
import time
from pathlib import Path

import pytest

from r1_router.files import held, sha256_of, write_atomically


def test_a_write_makes_its_folder_and_leaves_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "new" / "a.txt"
    write_atomically(path, "one")
    write_atomically(path, b"two")
    assert path.read_bytes() == b"two"
    assert list(path.parent.iterdir()) == [path]


def test_a_failed_write_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.txt"
    write_atomically(path, "old")

    def full(descriptor: int) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_atomically(path, "new")
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


def test_sha256(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 100_000)
    assert sha256_of(tmp_path / "a") == hashlib.sha256(b"x" * 100_000).hexdigest()


def test_one_maker_at_a_time(tmp_path: Path) -> None:
    inside: list[str] = []

    def make(name: str) -> None:
        with held(tmp_path / "deep" / "lock"):
            inside.append(f"{name} in")
            time.sleep(0.05)
            inside.append(f"{name} out")

    threads = [threading.Thread(target=make, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert inside in (["a in", "a out", "b in", "b out"], ["b in", "b out", "a in", "a out"])
