"""The registry against the published files, where they are at hand, and its rules for pictures."""

import hashlib
import json
from pathlib import Path

import pytest

from r1_router import jsonl
from r1_router.benchmarks import BENCHMARKS, PUBLISHED, Benchmark, benchmark_named
from r1_router.errors import ConfigError, DataError

ROOT = Path(__file__).parents[1]
SHARED = ROOT.parent / "shared"
FOLDERS = {"factbook": ROOT / "datasets" / "factbook", "ottqa-world": SHARED / "ottqa_world"}


def questions_file(name: str) -> Path:
    path = FOLDERS.get(name, SHARED / "datasets") / BENCHMARKS[name].file
    if not path.is_file():
        pytest.skip(f"the question file of {name} ({path.name}) is not here")
    return path


@pytest.mark.parametrize("name", BENCHMARKS)
def test_the_registry_tells_the_truth_about_each_file(name: str) -> None:
    benchmark, path = BENCHMARKS[name], questions_file(name)
    rows = list(jsonl.read(path))
    assert len(rows) == benchmark.rows
    assert hashlib.sha256(path.read_bytes()).hexdigest() == benchmark.sha256
    assert {benchmark.gold_key(row) for row in rows} == {benchmark.gold[0]}
    assert any(benchmark.image_path(row) for row in rows) == (benchmark.image is not None)


@pytest.mark.parametrize("name", FOLDERS)
def test_the_worlds_pictures_are_where_the_registry_says(name: str) -> None:
    path = questions_file(name)
    pictures = [picture for row in jsonl.read(path) if (picture := BENCHMARKS[name].image_path(row))]
    assert len(pictures) > 100
    assert all((path.parent / picture).is_file() for picture in pictures)


def test_the_published_names_are_those_of_the_golden_figures() -> None:
    figures = SHARED / "golden" / "evaluation_datasets.json"
    if not figures.is_file():
        pytest.skip("the golden data (../shared/golden) is not here")
    assert {file["dataset"] for file in json.loads(figures.read_text())["files"]} == set(PUBLISHED)


def test_infoseek_is_scored_on_answer_eval_and_on_nothing_else() -> None:
    assert BENCHMARKS["infoseek"].gold_key({"answer": ["Endangered"]}) is None
    assert BENCHMARKS["infoseek"].gold_key({"answer": ["x"], "answer_eval": ["y"]}) == "answer_eval"


def test_pictures_are_named_by_the_row() -> None:
    assert BENCHMARKS["infoseek"].image_path({"image_id": "oven_04990048"}) == "oven_04990048.jpg"
    assert BENCHMARKS["dyn_vqa"].image_path({"image_id": 7}) == "7.jpg"
    assert BENCHMARKS["factbook"].image_path({"image": None}) is None
    assert BENCHMARKS["tabfact"].image_path({"image_id": "7"}) is None


@pytest.mark.parametrize("image_id", ["../../etc/passwd", "/etc/passwd", "a\\..\\b"])
def test_a_picture_outside_the_folder_is_refused(image_id: str) -> None:
    with pytest.raises(DataError, match="outside the picture folder"):
        BENCHMARKS["webqa"].image_path({"image_id": image_id})


def test_an_unknown_benchmark_is_an_error_that_lists_the_known() -> None:
    with pytest.raises(ConfigError, match=r"'hotpotqa'.*openwikitqa.*factbook"):
        benchmark_named("hotpotqa")


@pytest.mark.parametrize("benchmark", BENCHMARKS.values(), ids=lambda one: one.name)
def test_every_entry_says_where_it_is_from_and_under_what_licence(benchmark: Benchmark) -> None:
    assert benchmark.licence and benchmark.source and benchmark.oddities
    assert "\n" not in benchmark.oddities
