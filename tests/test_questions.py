"""A user's own questions, and the published sets, as benchmarks."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from r1_router import jsonl
from r1_router.config import load_config
from r1_router.deployment import Deployment
from r1_router.errors import ConfigError, DataError, MissingDependency
from r1_router.questions import QuestionFile, find_questions, read_questions, results_name
from r1_router.types import Question, Trajectory

SHARED = Path(__file__).parents[1].parent / "shared" / "datasets"
ROWS: list[dict[str, Any]] = [
    {"id": "first", "question": "Capital of Norway?", "answer": "Oslo", "image": None, "topic": "towns"},
    {"id": None, "question": "Whose, this flag?", "answer": ["Chad", "Tchad"], "image": "p/flag.png", "topic": "flags"},
]
CSV = """\
id,question,answer,image,topic
first,Capital of Norway?,Oslo,,towns
,"Whose, this flag?","[""Chad"", ""Tchad""]",p/flag.png,flags
"""


def write_jsonl(path: Path) -> None:
    jsonl.rewrite(path, ROWS)


def write_csv(path: Path) -> None:
    path.write_text(CSV, "utf-8-sig")  # as spreadsheets do


def write_parquet(path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    import pyarrow

    cells = [row | {"answer": "Oslo" if row["id"] else '["Chad", "Tchad"]'} for row in ROWS]
    parquet.write_table(pyarrow.Table.from_pylist(cells), path)


def write_parquet_with_lists(path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    import pyarrow

    cells = [row | {"answer": row["answer"] if row["id"] is None else [row["answer"]]} for row in ROWS]
    parquet.write_table(pyarrow.Table.from_pylist(cells), path)


def deployment(root: Path, benchmarks: dict[str, str] | None = None) -> Deployment:
    source = {"name": "t", "tag": "ter", "purpose": "p", "passages": "a", "folder": "kb", "encoder": "e"}
    config = {
        "llm": {"name": "tiny", "model": "m"},
        "encoders": {"e": {"kind": "sentence", "model": "m"}},
        "sources": [source],
        "benchmarks": benchmarks or {"toy": "toy.jsonl"},
    }
    (root / "c.yaml").write_text(yaml.safe_dump(config))
    return Deployment(load_config(root / "c.yaml"))


def own(path: Path) -> list[Question]:
    return read_questions(find_questions(str(path), {}, path.parent))


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("mine.jsonl", write_jsonl),
        ("mine.csv", write_csv),
        ("mine.parquet", write_parquet),
        ("mine.parquet", write_parquet_with_lists),
    ],
    ids=["jsonl", "csv", "parquet", "parquet-lists"],
)
def test_a_file_of_ones_own_is_a_benchmark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, write: Callable[[Path], None]
) -> None:
    folder = tmp_path / "questions"
    (folder / "p").mkdir(parents=True)
    (folder / "p" / "flag.png").write_bytes(b"\x89PNG")
    write(folder / name)
    monkeypatch.chdir(tmp_path)
    first, second = deployment(tmp_path).questions(f"questions/{name}")
    assert (first.id, first.text, first.image, first.benchmark) == ("first", "Capital of Norway?", None, "mine")
    assert first.answers in ("Oslo", ["Oslo"]) and dict(first.extra) == {"topic": "towns"}
    assert second == Question(
        "2", "Whose, this flag?", ["Chad", "Tchad"], "mine", "questions/p/flag.png", {"topic": "flags"}
    )
    record = Trajectory(second).to_json()
    assert Trajectory.from_json(record).question == second
    assert results_name(f"questions/{name}") == "mine" and results_name("factbook") == "factbook"


def test_a_results_file_gives_its_questions_without_the_answers(tmp_path: Path) -> None:
    row = {"id": "a", "question": "a?", "answer": "b", "hops": 2}
    made = {"plan_0": {"query": "none", "retriever": ["none"]}, "llm_answer": "b", "usage": {"calls": 1}, "error": ""}
    jsonl.rewrite(tmp_path / "q.jsonl", [row | made])
    (question,) = own(tmp_path / "q.jsonl")
    assert question == Question("a", "a?", "b", "q", extra={"hops": 2})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("question,reply\na,b\n", "columns question and answer, and perhaps image and id; found question, reply"),
        ("", "expected the columns .* found none"),
        ("question,answer\n", "there is no question in it"),
        ("question,answer\na?,b,c\n", "line 2: more cells than columns; quote those with ',' in them"),
        ("question;answer\na?;b;c\n", "line 2: more cells than columns; quote those with ';' in them"),
        ("question,answer\na?\n", "row 1: no answer"),
        ("question,answer\na?, \n", "row 1: no answer"),
        ('question,answer\na?,"[]"\n', "row 1: no answer"),
        ("question,answer\na?,\"['b', 'c']\"\n", r"line 2: answer: .* is no JSON .*write \[\"a\", \"b\"\]"),
        ('question,answer\n"a?"x,b\n', "line 2: not CSV"),
        ("question,answer,answer\na?,b,c\n", "the columns answer occur twice"),
        ("id,question,answer\n2,a?,b\n,c?,d\n", "row 2: has the id '2' of row 1"),
    ],
)
def test_a_wrong_csv_is_told_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "q.csv").write_text(text)
    with pytest.raises(DataError, match=said):
        own(tmp_path / "q.csv")


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_csv_may_come_as_spreadsheets_write_it(tmp_path: Path, separator: str) -> None:
    lines = ["id,question,answer", "a,Which? Who?,b", ",,", '"c","d?","e"', ",,"]
    text = "\r\n".join(line.replace(",", separator) for line in lines)
    (tmp_path / "q.csv").write_bytes(text.encode("utf-8-sig"))
    assert [(one.id, one.text, one.answers) for one in own(tmp_path / "q.csv")] == [
        ("a", "Which? Who?", "b"),
        ("c", "d?", "e"),
    ]


def test_the_path_of_a_configured_benchmark_is_that_benchmark(tmp_path: Path) -> None:
    (tmp_path / "toy.jsonl").write_text('{"id": "1", "question": "a?", "answer": "b"}\n')
    (question,) = deployment(tmp_path).questions(str(tmp_path / "toy.jsonl"))
    assert question.benchmark == "toy"


def test_a_csv_in_another_encoding_is_told(tmp_path: Path) -> None:
    (tmp_path / "q.csv").write_bytes("question,answer\nCapital?,Malmö\n".encode("latin-1"))
    with pytest.raises(DataError, match="not UTF-8"):
        own(tmp_path / "q.csv")


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ('{"question": 3, "answer": "a"}', "row 1: question: expected the question's text"),
        ('{"question": "a?", "answer": "b", "image": {"bytes": ""}}', "row 1: image: expected a path"),
        ('{"question": "a?", "answer": "b"', "line 1: not JSON"),
        ('{"question": "a?", "answer": [" ", null]}', "row 1: no answer"),
    ],
)
def test_a_wrong_jsonl_is_told_with_its_place(tmp_path: Path, row: str, said: str) -> None:
    (tmp_path / "q.jsonl").write_text(row + "\n")
    with pytest.raises(DataError, match=said):
        own(tmp_path / "q.jsonl")


def test_a_torn_parquet_file_is_told(tmp_path: Path) -> None:
    write_parquet(tmp_path / "q.parquet")
    (tmp_path / "q.parquet").write_bytes((tmp_path / "q.parquet").read_bytes()[:-20])
    with pytest.raises(DataError, match="not a whole Parquet file"):
        own(tmp_path / "q.parquet")


def test_parquet_values_without_a_json_form_become_text_or_are_left_out(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    import datetime

    import pyarrow

    row = {"question": "When?", "answer": datetime.date(1814, 5, 17), "scan": b"\x00\xff"}
    parquet.write_table(pyarrow.Table.from_pylist([row]), tmp_path / "q.parquet")
    (question,) = own(tmp_path / "q.parquet")
    assert question.answers == "1814-05-17" and question.extra == {"scan": None}


def test_without_pyarrow_the_pip_command_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "q.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingDependency, match="pip install pyarrow"):
        own(tmp_path / "q.parquet")


def test_pictures_stay_in_the_files_folder_and_one_at_least_is_there(tmp_path: Path) -> None:
    for image, said in (("../x.png", "outside"), ("/etc/x.png", "outside"), ("none.png", "none of the 1 pictures")):
        (tmp_path / "q.csv").write_text(f"question,answer,image\na?,b,{image}\n")
        with pytest.raises(DataError, match=said):
            deployment(tmp_path).questions(str(tmp_path / "q.csv"))


@pytest.mark.parametrize(
    ("benchmark", "said"),
    [
        ("hotpotqa", r"there are toy in the config, openwikitqa, .*\.jsonl, \.csv, \.parquet"),
        ("none.csv", r"no file none\.csv"),
        ("{root}/toy.csv", "would mix with the benchmark 'toy'; rename"),
        ("{root}/webqa.csv", "would mix with the benchmark 'webqa'; rename"),
    ],
)
def test_what_is_no_benchmark_is_told(tmp_path: Path, benchmark: str, said: str) -> None:
    for name in ("toy", "webqa"):
        (tmp_path / f"{name}.csv").write_text("question,answer\na?,b\n")
    with pytest.raises(ConfigError, match=said):
        deployment(tmp_path).questions(benchmark.format(root=tmp_path))


def test_a_limit_and_a_seed_choose_rows_and_keep_their_numbers(tmp_path: Path) -> None:
    jsonl.rewrite(tmp_path / "toy.jsonl", [{"question": f"{n}?", "answer": str(n)} for n in range(1, 21)])
    made = deployment(tmp_path)
    assert [question.id for question in made.questions("toy", 3)] == ["1", "2", "3"]
    drawn = made.questions("toy", 5, sample_seed=1)
    assert drawn == made.questions("toy", 5, sample_seed=1) != made.questions("toy", 5)
    assert all(question.text == f"{question.id}?" for question in drawn)


@pytest.fixture
def published(tmp_path: Path) -> Path:
    """A project folder into which the real question files were fetched."""
    if not SHARED.is_dir():
        pytest.skip("the published question files (../shared/datasets) are not here")
    (tmp_path / "datasets" / "published").mkdir(parents=True)
    for path in SHARED.glob("*_val.jsonl"):
        shutil.copyfile(path, tmp_path / "datasets" / "published" / path.name)
    return tmp_path


def test_a_published_set_has_its_gold_ids_and_pictures(published: Path) -> None:
    made = deployment(published)
    folder = published / "datasets" / "published" / "images" / "infoseek"
    with pytest.raises(DataError, match=r"none of the 3 pictures is there.*datasets images infoseek"):
        made.questions("infoseek", 3)
    folder.mkdir(parents=True)
    (folder / "oven_04990048.jpg").write_bytes(b"\xff\xd8\xff")
    first, _, third = made.questions("infoseek", 3)
    assert first.id == "infoseek_val_00000000" and first.image == str(folder / "oven_04990048.jpg")
    assert first.answers == ["energy conversion", "energy transformation", "conversion"]
    assert third.answers == [{"wikidata": 6.75, "range": [6.5, 7.0]}]
    texts = made.questions("tabfact")
    assert len(texts) == 1000 and texts[-1].id == "1000" and texts[0].image is None


def test_a_published_set_is_refused_unless_it_is_the_published_one(published: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is missing; `r1-router datasets fetch dyn_vqa`"):
        deployment(published).questions("dyn_vqa")
    path = published / "datasets" / "published" / "tabfact_val.jsonl"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DataError, match="is corrupt; `r1-router datasets fetch tabfact`"):
        deployment(published).questions("tabfact")


def test_a_published_set_may_lie_where_the_config_says(published: Path) -> None:
    shutil.move(published / "datasets" / "published", published / "elsewhere")
    (published / "elsewhere" / "images" / "webqa").mkdir(parents=True)
    (published / "elsewhere" / "images" / "webqa" / "30037649.jpg").write_bytes(b"\xff\xd8\xff")
    (first,) = deployment(published, {"webqa": "elsewhere/webqa_val.jsonl"}).questions("webqa", 1)
    assert first.image == str(published / "elsewhere" / "images" / "webqa" / "30037649.jpg")


def test_a_file_that_the_config_names_is_read_by_its_ending(tmp_path: Path) -> None:
    write_csv(tmp_path / "toy.csv")
    file = find_questions("toy", {"toy": tmp_path / "toy.csv"}, tmp_path)
    assert file == QuestionFile("toy", tmp_path / "toy.csv", tmp_path)
    assert [question.benchmark for question in read_questions(file)] == ["toy", "toy"]
