"""Pictures taken out of what a user has: folders and archives, WebQA's table, Dyn-VQA's addresses."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import random
import shutil
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from faulty_server import FaultyServer, serving
from r1_router import jsonl
from r1_router.benchmarks import PUBLISHED, Benchmark
from r1_router.cli import app
from r1_router.datasets.check import check_set
from r1_router.datasets.links import DEAD_LINKS
from r1_router.datasets.pictures import MAX_BYTES, is_picture, pictures_of
from r1_router.datasets.places import quiet
from r1_router.datasets.sources import Gathered, gather_pictures
from r1_router.errors import ConfigError, DataError

SHARED = Path(__file__).parents[1].parent / "shared" / "datasets"


def jpeg(text: str) -> bytes:
    """Bytes that start as a JPEG does."""
    return b"\xff\xd8\xff\xe0" + text.encode()


@pytest.fixture
def server() -> Iterator[FaultyServer]:
    with serving() as server:
        yield server


def lay(root: Path, name: str, ids: list[Any]) -> Benchmark:
    """The set `name` cut to one question for each picture id, its question file laid under `root`."""
    rows = [{"question": f"what is {number}?", "answer": "a", "image_id": id_} for number, id_ in enumerate(ids)]
    data = "".join(json.dumps(row) + "\n" for row in rows).encode()
    root.mkdir(exist_ok=True)
    (root / PUBLISHED[name].file).write_bytes(data)
    return replace(PUBLISHED[name], size=len(data), rows=len(rows), sha256=hashlib.sha256(data).hexdigest())


def gather(root: Path, benchmark: Benchmark, source: Path) -> Gathered:
    return gather_pictures(root, benchmark, source, quiet)


def kept(root: Path, name: str) -> dict[str, bytes]:
    folder = root / "images" / name
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.jpg")}


def tar(path: Path, files: dict[str, bytes], mode: Any = "w") -> Path:
    with tarfile.open(path, mode) as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return path


def test_needed_pictures_are_found_in_folders_and_archives(tmp_path: Path) -> None:
    benchmark = lay(tmp_path / "root", "infoseek", ["oven_01", "oven_02", "oven_03", "oven_04", "oven_01", "oven_05"])
    source = tmp_path / "oven"
    (source / "01").mkdir(parents=True)
    (source / "01" / "oven_01.JPEG").write_bytes(jpeg("1"))
    (source / "01" / "oven_99.jpg").write_bytes(jpeg("not asked for"))
    (source / "oven_02.txt").write_bytes(jpeg("no picture's name"))
    tar(source / "shard00.tar", {"oven_images/02/oven_02.jpg": jpeg("2"), "oven_images/98/oven_98.jpg": jpeg("98")})
    tar(source / "shard01.tar.gz", {"../../oven_03.png": b"\x89PNG\r\n\x1a\n3"}, "w:gz")
    with zipfile.ZipFile(source / "shard02.zip", "w") as archive:
        archive.writestr("/etc/oven_04.jpg", jpeg("4"))
    found = gather(tmp_path / "root", benchmark, source)
    assert (found.brought, found.present, found.needed, found.faults) == (4, 4, 5, {})
    here = {"oven_01": jpeg("1"), "oven_02": jpeg("2"), "oven_03": b"\x89PNG\r\n\x1a\n3", "oven_04": jpeg("4")}
    assert kept(tmp_path / "root", "infoseek") == {f"{name}.jpg": data for name, data in here.items()}
    assert gather(tmp_path / "root", benchmark, tar(tmp_path / "rest.tar", {"oven_05.jpg": jpeg("5")})).brought == 1


def test_what_is_no_picture_is_told_and_a_later_one_takes_its_place(tmp_path: Path) -> None:
    benchmark = lay(tmp_path, "infoseek", ["oven_01", "oven_02"])
    files = {"a/oven_01.jpg": b"<html>", "a/oven_02.jpg": b"", "b/oven_01.jpg": jpeg("1")}
    found = gather(tmp_path, benchmark, tar(tmp_path / "s.tar", files))
    assert found.present == 1 and list(found.faults) == ["oven_02.jpg"]
    assert kept(tmp_path, "infoseek") == {"oven_01.jpg": jpeg("1")}


@pytest.mark.parametrize("ending", [".tar", ".tar.gz", ".zip"])
def test_a_torn_archive_is_named_and_what_stood_before_is_kept(tmp_path: Path, ending: str) -> None:
    benchmark = lay(tmp_path, "infoseek", ["oven_01", "oven_02"])
    files = {"oven_01.jpg": jpeg("1"), "oven_02.jpg": jpeg("2") + random.Random(0).randbytes(100_000)}
    whole = tmp_path / f"s{ending}"
    if ending == ".zip":
        with zipfile.ZipFile(whole, "w") as archive:
            for name, data in files.items():
                archive.writestr(name, data)
    else:
        tar(whole, files, "w" if ending == ".tar" else "w:gz")
    whole.write_bytes(whole.read_bytes()[:-12_000])
    with pytest.raises(DataError, match=rf"s{ending}: a broken archive"):
        gather(tmp_path, benchmark, whole)
    assert kept(tmp_path, "infoseek") == ({} if ending == ".zip" else {"oven_01.jpg": jpeg("1")})


@pytest.mark.parametrize("name", ["infoseek", "webqa", "dyn_vqa"])
@pytest.mark.parametrize("id_", ["../../../stolen", "/tmp/stolen", "a\\..\\stolen"])
def test_an_id_that_leads_out_of_the_folder_is_refused(tmp_path: Path, name: str, id_: str) -> None:
    benchmark = lay(tmp_path / "root", name, [id_])
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "stolen.jpg").write_bytes(jpeg("x"))
    with pytest.raises(DataError, match="outside the picture folder"):
        gather(tmp_path / "root", benchmark, tmp_path / "source")
    assert not (tmp_path / "root" / "images").exists()


def table(folder: Path, lines: list[bytes], *, index: bool) -> Path:
    """WebQA's table of these lines, with the offset of each line beside it."""
    folder.mkdir(exist_ok=True)
    (folder / "imgs.tsv").write_bytes(b"".join(lines))
    if index:
        offsets = [sum(map(len, lines[:number])) for number in range(len(lines))]
        (folder / "imgs.lineidx").write_text("".join(f"{offset}\n" for offset in offsets))
    return folder


def line(number: int, data: bytes | None = None) -> bytes:
    picture = jpeg(f"picture {number}") if data is None else data
    return f"{30_000_000 + number}\t".encode() + base64.b64encode(picture) + b"\n"


@pytest.mark.parametrize("index", [True, False])
def test_webqa_pictures_are_read_by_id(tmp_path: Path, index: bool) -> None:
    benchmark = lay(tmp_path, "webqa", ["30000007", "30000000", "30000003", "30000004", "30000002", "30000020"])
    lines = [line(number) for number in range(10)]
    lines[3] = line(3, b"<html>")
    lines[4] = b"30000004\tno base64!\n"
    found = gather(tmp_path, benchmark, table(tmp_path / "webqa", lines, index=index))
    assert (found.present, found.needed) == (3, 6)
    assert set(found.faults) == {"30000003.jpg", "30000004.jpg", "30000020.jpg"}
    assert found.faults["30000020.jpg"] == "no line in imgs.tsv"
    assert kept(tmp_path, "webqa") == {f"3000000{n}.jpg": jpeg(f"picture {n}") for n in (0, 2, 7)}


def test_with_the_index_only_the_needed_lines_are_read(tmp_path: Path) -> None:
    """The lines between are no table at all, which reading from end to end would find out."""
    benchmark = lay(tmp_path, "webqa", ["30000002"])
    source = table(tmp_path / "webqa", [b"junk\n", b"\xff" * 100 + b"\n", line(2)], index=True)
    assert gather(tmp_path, benchmark, source / "imgs.tsv").present == 1
    (tmp_path / "images" / "webqa" / "30000002.jpg").unlink()
    (source / "imgs.lineidx").unlink()
    with pytest.raises(DataError, match="expected lines of id, tab and base64"):
        gather(tmp_path, benchmark, source)


@pytest.mark.parametrize(("offsets", "said"), [("0\n3\n", "does not belong to"), ("0\nx\n", "line 2: expected a byte")])
def test_an_index_of_another_table_is_refused(tmp_path: Path, offsets: str, said: str) -> None:
    benchmark = lay(tmp_path, "webqa", ["30000001"])
    source = table(tmp_path / "webqa", [line(0), line(1)], index=True)
    (source / "imgs.lineidx").write_text(offsets)
    with pytest.raises(DataError, match=said):
        gather(tmp_path, benchmark, source)


def links(path: Path, addresses: list[str], questions: dict[int, str] | None = None) -> Path:
    """OmniSearch's file for the questions that `lay` writes; pictures have other numbers there."""
    asked = {number: f"what is {number}?" for number in range(len(addresses))} | (questions or {})
    jsonl.rewrite(path, [{"question": asked[n], "image_url": url} for n, url in enumerate(addresses)])
    return path


def test_dyn_vqa_is_joined_by_row_and_dead_links_are_listed(server: FaultyServer, tmp_path: Path) -> None:
    benchmark = lay(tmp_path, "dyn_vqa", [1, 2, 3, 4, 5, 6])
    server.files = {"image_7.jpeg": jpeg("1"), "sorry.jpg": b"<html>", "image_9.jpeg": jpeg("other")}
    addresses = [*map(server.url, ["image_7.jpeg", "gone.jpg", "sorry.jpg", "image_9.jpeg"]), "file:///etc/passwd", ""]
    source = links(tmp_path / "d.jsonl", addresses, {3: "what else?"})
    found = gather(tmp_path, benchmark, source)
    assert (found.brought, found.present, found.needed) == (1, 1, 6)
    assert kept(tmp_path, "dyn_vqa") == {"1.jpg": jpeg("1")}
    assert "HTTP 404" in found.faults["2.jpg"] and "no picture" in found.faults["3.jpg"]
    assert found.faults["4.jpg"] == "its row asks another question"
    listed = list(jsonl.read(tmp_path / "images" / "dyn_vqa" / DEAD_LINKS))
    assert [row["image"] for row in listed] == ["2.jpg", "3.jpg", "4.jpg", "5.jpg", "6.jpg"]
    assert "5 addresses were dead" in "\n".join(check_set(tmp_path, benchmark).lines())
    server.requests.clear()
    server.files["gone.jpg"] = jpeg("2")
    assert gather(tmp_path, benchmark, source).brought == 1
    assert sorted(path for path, _ in server.requests) == ["gone.jpg", "sorry.jpg"]


def test_a_file_that_is_not_the_questions_own_is_refused(tmp_path: Path) -> None:
    benchmark = lay(tmp_path, "dyn_vqa", [1, 2])
    with pytest.raises(DataError, match="1 rows, but 2 questions"):
        gather(tmp_path, benchmark, links(tmp_path / "d.jsonl", ["http://127.0.0.1:9/"]))
    with pytest.raises(DataError, match="no row asks"):
        gather(tmp_path, benchmark, links(tmp_path / "d.jsonl", ["", ""], {0: "a?", 1: "b?"}))


def test_what_cannot_be_a_source_is_told_with_what_is_expected(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"datasets fetch webqa"):
        gather(tmp_path, PUBLISHED["webqa"], tmp_path)
    benchmark = lay(tmp_path, "infoseek", ["oven_01"])
    with pytest.raises(DataError, match=r"there is no .*oven_04990048"):
        gather(tmp_path, benchmark, tmp_path / "nowhere")
    with pytest.raises(DataError, match="neither a folder nor an archive"):
        gather(tmp_path, benchmark, tmp_path / benchmark.file)
    with pytest.raises(ConfigError, match="tabfact has no pictures"):
        gather(tmp_path, lay(tmp_path, "tabfact", []), tmp_path)


def test_check_tells_present_from_missing_and_corrupt(tmp_path: Path) -> None:
    benchmark = lay(tmp_path, "webqa", [f"3000000{number}" for number in range(9)])
    pictures = pictures_of(tmp_path / benchmark.file, benchmark)
    assert pictures.keep("30000000.jpg", jpeg("0")) is None
    assert pictures.keep("30000001.jpg", bytes(MAX_BYTES + 1)) == f"more than {MAX_BYTES:,} bytes"
    (pictures.folder / "30000002.jpg").write_bytes(b"")
    report = check_set(tmp_path, benchmark)
    text = "\n".join(report.lines())
    assert "pictures 1 of 9 present, 7 missing, 1 corrupt" in text and "and 2 more" in text
    assert "corrupt: 30000002.jpg in" in text and "imgs.tsv" in text
    assert not report.sound
    gather(tmp_path, benchmark, table(tmp_path / "t", [line(number) for number in range(9)], index=True))
    assert list(check_set(tmp_path, benchmark).lines()) == [f"{'webqa':16} questions present; pictures 9 of 9 present"]


def test_images_from_the_command_line(tmp_path: Path) -> None:
    if not SHARED.is_dir():
        pytest.skip("the published question files (../shared/datasets) are not here")
    shutil.copyfile(SHARED / "infoseek_val.jsonl", tmp_path / "infoseek_val.jsonl")
    source = tar(tmp_path / "s.tar", {"oven_04990048.jpg": jpeg("1"), "oven_04962816.jpg": b"<html>"})
    result = CliRunner().invoke(app, ["datasets", "images", "infoseek", f"--from={source}", f"--root={tmp_path}"])
    assert result.exit_code == 0, result.output
    assert (
        "1 pictures brought, 1 of 963 are there" in result.stdout and "oven_04962816.jpg: no picture" in result.stdout
    )


def test_pictures_are_known_by_their_first_bytes() -> None:
    heads = (jpeg(""), b"\x89PNG\r\n\x1a\n", b"GIF89a", b"RIFF\x00\x00\x00\x00WEBPVP8 ")
    assert all(map(is_picture, heads)) and not any(is_picture(b" " + head) or is_picture(head[:1]) for head in heads)
