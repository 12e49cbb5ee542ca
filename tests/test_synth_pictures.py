"""Pictures of step rows: named from the rows' folder, copied or linked there; rows as the trained model is asked."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from tokenizers import Tokenizer
from typer.testing import CliRunner, Result

from r1_router import jsonl
from r1_router.cli import app
from r1_router.errors import DataError
from r1_router.synthesis.pictures import COPY, LINK, REFER, placed
from teacher_server import build_world
from tiny_models import save_tiny_model


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three pictures, two of the same name; the command runs beside them."""
    for name in ("a/flag.png", "b/flag.png", "b/map.png"):
        (tmp_path / "data" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "data" / name).write_bytes(name.encode())
    monkeypatch.chdir(tmp_path)
    return tmp_path / "steps"


IMAGES = ["data/a/flag.png", "data/b/flag.png", "data/a/flag.png", "data/b/map.png"]


def test_a_picture_is_named_from_the_folder_of_the_rows(folder: Path) -> None:
    found = placed(IMAGES, folder, REFER)
    assert found == {image: f"../{image}" for image in IMAGES} and not folder.exists()
    assert placed([str(folder.parent / IMAGES[0])], folder, REFER) == {
        str(folder.parent / IMAGES[0]): "../data/a/flag.png"
    }


@pytest.mark.parametrize("how", [COPY, LINK])
def test_pictures_are_brought_beside_the_rows_and_keep_their_names(folder: Path, how: str) -> None:
    for _ in range(2):  # the second time they are there
        found = placed(IMAGES, folder, how)
        assert list(found.values()) == ["images/flag.png", "images/2/flag.png", "images/map.png"]
        for image, path in found.items():
            assert (folder / path).read_bytes() == Path(image).read_bytes()
            assert (folder / path).samefile(image) == (how == LINK)
    brought = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert brought == set(found.values())


@pytest.mark.parametrize("how", [COPY, LINK])
def test_a_picture_that_is_not_there_is_an_error_that_names_the_way_out(folder: Path, how: str) -> None:
    with pytest.raises(DataError, match=r"none\.png .*images: refer"):
        placed(["data/none.png"], folder, how)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Gold questions with pictures; no teacher is asked, so no server is needed."""
    root = tmp_path_factory.mktemp("pictures")
    build_world(root, "http://127.0.0.1:1/v1")
    save_tiny_model(root / "llm")
    hop = {"query": "where does velm03 lie?", "source": "text retriever", "gold_ids": ["text/Velm03"]}
    rows = [
        {"id": str(n), "question": f"Where Is {n}?", "answers": ["Arda03"], "image": f"seen/{n}.png"}
        | {"hops": [hop | {"answer": "Arda03"}]}
        for n in range(4)
    ]
    (root / "seen").mkdir()
    for n in range(4):
        (root / "seen" / f"{n}.png").write_bytes(bytes([n]))
    jsonl.rewrite(root / "gold.jsonl", rows)
    return root


def synthesize(world: Path, folder: Path, settings: dict[str, Any] | None = None, **section: Any) -> Result:
    """The gold questions of a copy of the world cut into rows, in `folder`."""
    shutil.copytree(world, folder)
    value = yaml.safe_load((folder / "mine.yaml").read_text())
    sets = {"golden": {"questions": "gold.jsonl", "gold": True}}
    value |= {"synthesis": {"out": "steps", "sets": sets, **section}, **(settings or {})}
    (folder / "mine.yaml").write_text(yaml.safe_dump(value))
    return CliRunner().invoke(app, ["synthesize", "--config", str(folder / "mine.yaml")])


def rows_of(folder: Path) -> list[dict[str, Any]]:
    return [row for part in ("train", "valid") for row in jsonl.read(folder / "steps" / f"steps_{part}.jsonl")]


@pytest.mark.parametrize(("how", "prefix"), [("refer", "../seen/"), ("copy", "images/"), ("link", "images/")])
def test_the_rows_name_pictures_that_are_there(world: Path, tmp_path: Path, how: str, prefix: str) -> None:
    done = synthesize(world, tmp_path / "w", images=how)
    assert done.exit_code == 0, done.output
    rows = rows_of(tmp_path / "w")
    assert sorted(row["images"][0] for row in rows) == [f"{prefix}{n}.png" for n in range(4)]
    assert all((tmp_path / "w" / "steps" / row["images"][0]).is_file() for row in rows)


def test_another_word_for_what_becomes_of_pictures_is_refused(world: Path, tmp_path: Path) -> None:
    done = synthesize(world, tmp_path / "w", images="move")
    assert done.exit_code == 1 and "refer, copy, link" in " ".join(done.output.split())


@pytest.mark.parametrize(("lower_case", "asked"), [(True, "where is 0?"), (False, "Where Is 0?")])
def test_rows_ask_as_the_trained_model_is_asked(world: Path, tmp_path: Path, lower_case: bool, asked: str) -> None:
    assert synthesize(world, tmp_path / "w", {"lower_case": lower_case}).exit_code == 0
    prompts = [row["steps"][0]["problem"] for row in rows_of(tmp_path / "w")]
    assert f"Origin question: {asked}\n<image>" in prompts


def test_the_card_counts_tokens_by_the_tokenizer_that_is_named(world: Path, tmp_path: Path) -> None:
    assert synthesize(world, tmp_path / "w", tokenizer="llm").exit_code == 0
    lengths = json.loads((tmp_path / "w" / "steps" / "stats.json").read_text())["lengths"]
    tokenizer = Tokenizer.from_file(str(world / "llm" / "tokenizer.json"))
    routes = (step["problem"] for row in rows_of(tmp_path / "w") for step in row["steps"] if step["step_type"] == "ret")
    longest = max(len(tokenizer.encode(problem)) for problem in routes)
    assert lengths["tokens"]["route"]["user text"]["max"] == longest > lengths["words"]["route"]["user text"]["max"]
    missing = synthesize(world, tmp_path / "v", tokenizer="nowhere")
    assert missing.exit_code == 1 and "synthesis.tokenizer: no file" in " ".join(missing.output.split())
