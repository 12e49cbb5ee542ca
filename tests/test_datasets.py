"""Fetching the published question files from a server that misbehaves, and checking what is there."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from faulty_server import FaultyServer, serving
from r1_router.benchmarks import PUBLISHED, Benchmark
from r1_router.cli import app
from r1_router.datasets.download import Downloader, Remote
from r1_router.datasets.places import BASE_URL, BASE_URL_VARIABLE
from r1_router.datasets.question_files import fetch_questions
from r1_router.errors import DownloadError

ROOT = Path(__file__).parents[1]
SHARED = ROOT.parent / "shared" / "datasets"
BODY = bytes(range(256)) * 4
TRIES = 3


@pytest.fixture
def server() -> Iterator[FaultyServer]:
    with serving() as server:
        server.files["f"] = BODY
        yield server


def remote(server: FaultyServer, body: bytes = BODY) -> Remote:
    return Remote(server.url("f"), len(body), hashlib.sha256(body).hexdigest())


def patient() -> Downloader:
    """The real client, which does not wait between its tries."""
    return Downloader(tries=TRIES, first_wait=0.0, timeout=10.0)


def fetch(wanted: Remote, target: Path) -> bytes:
    with patient() as downloader:
        return downloader.fetch(wanted, target).read_bytes()


def test_a_file_comes_whole_with_its_progress_and_is_not_fetched_again(server: FaultyServer, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    with patient() as downloader:
        for _ in range(2):
            path = downloader.fetch(remote(server), tmp_path / "to" / "f", lambda *now: seen.append(now))
    assert path.read_bytes() == BODY and os.listdir(path.parent) == ["f"]
    assert seen[-1] == (len(BODY), len(BODY))
    assert server.requests == [("f", "")]


@pytest.mark.parametrize("fault", ["drop", "reset", "busy", "short", "long"])
def test_one_fault_is_mended_by_another_try(server: FaultyServer, tmp_path: Path, fault: str) -> None:
    server.faults = [fault]
    assert fetch(remote(server), tmp_path / "f") == BODY
    went_on = {"drop": f"bytes={len(BODY) // 2}-", "short": "bytes=10-"}
    assert server.ranges == ([""] if fault == "long" else ["", went_on.get(fault, "")])


def test_a_line_that_drops_again_and_again_is_not_given_up_while_bytes_come(
    server: FaultyServer, tmp_path: Path
) -> None:
    server.always = "drop"
    assert fetch(remote(server), tmp_path / "f") == BODY
    assert len(server.requests) > TRIES


def test_a_server_without_ranges_sends_all_again(server: FaultyServer, tmp_path: Path) -> None:
    server.faults = ["drop", "whole"]
    assert fetch(remote(server), tmp_path / "f") == BODY
    assert len(server.requests) == 2


def test_a_partial_answer_from_another_byte_is_not_appended(server: FaultyServer, tmp_path: Path) -> None:
    server.faults = ["drop", "elsewhere"]
    assert fetch(remote(server), tmp_path / "f") == BODY
    assert server.ranges == ["", f"bytes={len(BODY) // 2}-", ""]


@pytest.mark.parametrize(("fault", "said"), [("busy", "HTTP 503"), ("reset", "RemoteProtocolError")])
def test_a_server_that_never_answers_is_given_up(server: FaultyServer, tmp_path: Path, fault: str, said: str) -> None:
    server.always = fault
    with pytest.raises(DownloadError, match=said):
        fetch(remote(server), tmp_path / "f")
    assert len(server.requests) == TRIES and os.listdir(tmp_path) == []


def test_a_length_that_is_always_understated_is_told_with_both_numbers(server: FaultyServer, tmp_path: Path) -> None:
    server.files["f"] = BODY[:10]
    with pytest.raises(DownloadError, match=r"10 of 1,024 bytes"):
        fetch(remote(server), tmp_path / "f")


def test_wrong_bytes_are_refused_with_both_checksums(server: FaultyServer, tmp_path: Path) -> None:
    server.always = "wrong"
    with pytest.raises(DownloadError, match="wrong checksum") as caught:
        fetch(remote(server), tmp_path / "f")
    assert hashlib.sha256(BODY).hexdigest() in str(caught.value)
    assert hashlib.sha256(b"?" * len(BODY)).hexdigest() in str(caught.value)
    assert os.listdir(tmp_path) == [] and len(server.requests) == 1


@pytest.mark.parametrize("left", [b"x" * 300, b"x" * len(BODY), b"x" * 5000, BODY])
def test_what_an_earlier_call_left_is_used_only_if_it_is_right(
    server: FaultyServer, tmp_path: Path, left: bytes
) -> None:
    (tmp_path / "f.part").write_bytes(left)
    assert fetch(remote(server), tmp_path / "f") == BODY
    assert os.listdir(tmp_path) == ["f"]
    assert (server.requests == []) == (left == BODY)


def test_a_body_longer_than_the_file_is_not_taken_to_its_end(server: FaultyServer, tmp_path: Path) -> None:
    server.files["f"] = BODY + b"more" * 1000
    assert fetch(remote(server), tmp_path / "f") == BODY


def test_what_no_try_mends_is_told_at_once_and_keeps_the_part(server: FaultyServer, tmp_path: Path) -> None:
    (tmp_path / "f.part").write_bytes(BODY[:500])
    del server.files["f"]
    with pytest.raises(DownloadError, match="HTTP 404 Not Found"):
        fetch(remote(server), tmp_path / "f")
    assert len(server.requests) == 1 and (tmp_path / "f.part").read_bytes() == BODY[:500]


def test_a_redirect_is_followed_with_the_range(server: FaultyServer, tmp_path: Path) -> None:
    server.moved["old"] = "/f"
    (tmp_path / "f.part").write_bytes(BODY[:500])
    assert fetch(replace(remote(server), url=server.url("old")), tmp_path / "f") == BODY
    assert server.requests == [("old", "bytes=500-"), ("f", "bytes=500-")]


def test_a_killed_download_goes_on_from_its_bytes(server: FaultyServer, tmp_path: Path) -> None:
    server.faults = ["stall"]
    call = "import sys; from pathlib import Path; from r1_router.datasets.download import Downloader, Remote; "
    call += "Downloader().fetch(Remote(sys.argv[1], int(sys.argv[2]), sys.argv[3]), Path(sys.argv[4]))"
    wanted, part = remote(server), tmp_path / "f.part"
    words = [sys.executable, "-c", call, wanted.url, str(wanted.size), wanted.sha256, str(tmp_path / "f")]
    process = subprocess.Popen(words, env=os.environ | {"PYTHONPATH": str(ROOT / "src")})
    deadline = time.monotonic() + 60
    while not (part.exists() and part.stat().st_size == len(BODY) // 2):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert fetch(wanted, tmp_path / "f") == BODY
    assert server.ranges == ["", f"bytes={len(BODY) // 2}-"]


def test_a_small_file_is_bounded(server: FaultyServer) -> None:
    with patient() as downloader:
        assert downloader.read(server.url("f"), len(BODY)) == BODY
        with pytest.raises(DownloadError, match="more than 100 bytes"):
            downloader.read(server.url("f"), 100)
        with pytest.raises(DownloadError, match="not whole after 0 s"):
            downloader.read(server.url("f"), len(BODY), seconds=0)
        for address in ("nothing", "ftp://127.0.0.1/f", "http://[", "None"):
            with pytest.raises(DownloadError):
                downloader.read(address, 100)


def tiny(name: str) -> tuple[Benchmark, bytes]:
    """A published set cut to one row, and its question file's bytes."""
    data = json.dumps({"question": f"{name}?", "answer": "a", "answer_eval": "a", "image_id": "1"}).encode() + b"\n"
    return replace(PUBLISHED[name], size=len(data), rows=1, sha256=hashlib.sha256(data).hexdigest()), data


def test_one_set_that_cannot_be_had_does_not_keep_the_others_away(server: FaultyServer, tmp_path: Path) -> None:
    sets = [tiny(name) for name in PUBLISHED]
    server.files = {f"d/{one.file}": data for one, data in sets if one.name != "webqa"}
    with patient() as downloader, pytest.raises(DownloadError, match=r"webqa: .*404") as caught:
        fetch_questions(tmp_path, [one for one, _ in sets], server.url("d/"), downloader, lambda *_: None)
    assert BASE_URL_VARIABLE in str(caught.value)
    assert {path.name for path in tmp_path.glob("*.jsonl")} == {one.file for one, _ in sets if one.name != "webqa"}


def test_the_address_is_the_registrys_source() -> None:
    for benchmark in PUBLISHED.values():
        repository, _, commit, _, folder = benchmark.source.replace(",", "").split()
        assert f"https://{repository}/raw/{commit}/{folder}" == BASE_URL


def command(*words: str) -> Result:
    return CliRunner().invoke(app, ["datasets", *words], env={BASE_URL_VARIABLE: None})


@pytest.fixture
def published(server: FaultyServer) -> FaultyServer:
    """A mirror with the real files."""
    if not SHARED.is_dir():
        pytest.skip("the published question files (../shared/datasets) are not here")
    server.files = {one.file: (SHARED / one.file).read_bytes() for one in PUBLISHED.values()}
    return server


def test_fetch_and_check_from_the_command_line(published: FaultyServer, tmp_path: Path) -> None:
    where = ("--root", str(tmp_path))
    empty = command("check", *where)
    assert empty.exit_code == 1 and empty.stdout.count("questions missing") == 6
    assert f"{BASE_URL}/webqa_val.jsonl" in empty.stdout
    published.faults = ["drop", "busy"]
    result = command("fetch", "webqa", "tabfact", "--base-url", published.url(), *where)
    assert result.exit_code == 0, result.output
    assert {path.name for path in tmp_path.glob("*.jsonl")} == {"webqa_val.jsonl", "tabfact_val.jsonl"}
    found = command("check", "webqa", "tabfact", *where)
    assert found.exit_code == 0 and found.stdout.count("questions present") == 2
    assert "pictures 0 of 984 present, 984 missing" in found.stdout and "none needed" in found.stdout
    assert "datasets images webqa --from PATH" in found.stdout


def test_a_mirror_may_stand_in_the_environment_and_all_sets_are_the_default(
    published: FaultyServer, tmp_path: Path
) -> None:
    words = ["datasets", "fetch", "--root", str(tmp_path)]
    result = CliRunner().invoke(app, words, env={BASE_URL_VARIABLE: published.url()})
    assert result.exit_code == 0, result.output
    assert all((tmp_path / one.file).stat().st_size == one.size for one in PUBLISHED.values())


def test_a_corrupt_file_is_found_and_fetched_again(published: FaultyServer, tmp_path: Path) -> None:
    shutil.copyfile(SHARED / "tabfact_val.jsonl", tmp_path / "tabfact_val.jsonl")
    with open(tmp_path / "tabfact_val.jsonl", "rb+") as file:
        file.write(b"X")
    result = command("check", "tabfact", "--root", str(tmp_path))
    assert result.exit_code == 1 and "questions corrupt" in result.stdout
    assert command("fetch", "tabfact", "--base-url", published.url(), "--root", str(tmp_path)).exit_code == 0
    assert command("check", "tabfact", "--root", str(tmp_path)).exit_code == 0


def test_an_unknown_set_is_an_error_that_lists_the_known() -> None:
    result = command("fetch", "hotpotqa")
    assert result.exit_code == 1 and "openwikitqa" in result.output and "Traceback" not in result.output
