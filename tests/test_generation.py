"""Questions made from knowledge bases: what is drawn, how hops are chained, what is dropped and why."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from loopback import serving
from r1_router import jsonl
from r1_router.cli import app
from r1_router.config import load_config
from r1_router.deployment import Deployment
from r1_router.hops import gold_hops
from r1_router.llm.scripted import ScriptedLLM
from r1_router.methods import Settings
from r1_router.prompts import load_prompts
from r1_router.records import question_from_json
from r1_router.replies import BadReply
from r1_router.sections import SynthesisSet
from r1_router.synthesis.draws import Draw, Kind, Shelf, draw_all
from r1_router.synthesis.generation import DROPPED, MADE, generator
from r1_router.synthesis.written import Written, holds, parse_chained, parse_written
from r1_router.synthesize import Synthesis, with_set
from r1_router.types import IMAGE, TABLE, TEXT, Passage, Query, Source
from teacher_server import HOP, QUESTION, Server, build_world
from test_methods import GOOD_ANSWER, finished

EVIDENCE = "Velm. Velm lies in the region Arda, founded in 1803."


class Shelved:
    """A retriever over a few passages that finds those which hold the query."""

    def __init__(self, source: Source, *texts: str) -> None:
        self.passages = [Passage(f"{source.tag}/{n}", text, 1.0, source) for n, text in enumerate(texts)]
        self.queries: list[Query] = []

    async def search(self, query: Query, k: int) -> list[Passage]:
        self.queries.append(query)
        return [passage for passage in self.passages if holds(passage.text, query.text)][:k]


TOWNS, RIVERS = Shelved(TEXT, EVIDENCE, "The Brook is a river."), Shelved(TABLE, "Rivers. Arda: Brook; Este: Alm")
PICTURES = Shelved(IMAGE, "Velm. A town in Arda by the Brook.")
SHELVES = {TEXT: TOWNS, IMAGE: PICTURES, TABLE: RIVERS}
TOWN, RIVER = HOP.format("Where does Velm lie?", "Arda"), HOP.format("Which river has Arda?", "Brook")
WHOLE = QUESTION.format("Which river has the region of Velm?")


def made(script: Sequence[str], *, hops: int = 1, kind: Kind = Kind.PASSAGE) -> Mapping[str, Any]:
    """What the record of one draw holds after the teacher's replies, all of which must be used."""
    shelf, image = (PICTURES, "kb/velm.png") if kind is Kind.PICTURE else (TOWNS, None)
    draw = Draw("g", kind, "Passage: ..", shelf.passages[0], hops, image)
    llm = ScriptedLLM(script)
    run = generator(Settings(load_prompts("guided")), {"g": draw})
    trajectory = finished(run(draw.question(), llm, SHELVES))
    assert len(llm.calls) == len(script) == len({call.sampling.seed for call in llm.calls})
    return trajectory.question.extra


def answer(text: str) -> str:
    return GOOD_ANSWER.format(text)


def test_one_hop_is_answered_back_and_kept() -> None:
    row = made([TOWN, answer("in Arda")])[MADE]
    assert (row["question"], row["answers"], row["image"], row["n_hops"]) == ("Where does Velm lie?", ["Arda"], None, 1)
    hop = {"query": "where does velm lie?", "source": "text retriever", "gold_ids": ["ter/0"], "answer": "Arda"}
    assert row["hops"] == [hop]


def test_hops_are_chained_over_what_they_share_and_put_into_one_question() -> None:
    row = made([TOWN, answer("arda"), RIVER, answer("brook"), WHOLE, answer("brook")], hops=2)[MADE]
    assert row["question"] == "Which river has the region of Velm?" and row["answers"] == ["Brook"]
    assert [(hop.source, sorted(hop.ids)) for hop in gold_hops(question_from_json(row))] == [
        ("text retriever", ["ter/0"]),
        ("table retriever", ["tar/0"]),
    ]


def test_a_picture_opens_a_chain_and_is_never_searched_for() -> None:
    asks = HOP.format("Which town is in the picture?", "Velm")
    then = HOP.format("When was Velm founded?", "1803")
    whole = QUESTION.format("When was the town in the picture founded?")
    PICTURES.queries.clear()
    row = made([asks, answer("velm"), then, answer("1803"), whole, answer("1803")], hops=3, kind=Kind.PICTURE)[MADE]
    assert row["image"] == "kb/velm.png" and [hop["source"] for hop in row["hops"]] == [IMAGE.name, TEXT.name]
    assert PICTURES.queries == []


def test_a_chain_that_cannot_go_on_ends_where_it_is() -> None:
    assert made([HOP.format("Founded when, Velm?", "1803"), answer("1803")], hops=3)[MADE]["n_hops"] == 1
    assert made([TOWN, answer("arda"), "no", "no"], hops=2)[MADE]["n_hops"] == 1


@pytest.mark.parametrize(
    ("script", "hops", "reason"),
    [
        (["no tags", "<question>Where?</question>"], 1, "question malformed"),
        ([HOP.format("Where?", "Oslo")] * 2, 1, "answer not in its evidence"),
        ([HOP.format("Is it Arda?", "Arda")] * 2, 1, "question names its answer"),
        ([TOWN, answer("oslo")], 1, "not answered back"),
        ([TOWN, "no", "no"], 1, "not answered back"),
        ([TOWN, answer("arda"), RIVER, answer("brook"), "no", "no"], 2, "chained question malformed"),
        ([TOWN, answer("arda"), RIVER, answer("brook"), *[RIVER] * 2], 2, "chained question names an answer"),
        ([TOWN, answer("arda"), RIVER, answer("brook"), WHOLE, answer("alm")], 2, "not answered back"),
    ],
)
def test_what_is_dropped_says_why(script: list[str], hops: int, reason: str) -> None:
    assert made(script, hops=hops) == {DROPPED: reason}


def test_a_second_try_may_mend_a_reply_and_thoughts_are_passed_over() -> None:
    thinking = "<think>What of <question>this</question>?</think>" + TOWN
    assert made(["no", thinking, "no", answer("arda")])[MADE]["question"] == "Where does Velm lie?"


def test_names_are_held_word_for_word() -> None:
    assert holds("The river Brook, of Arda", "brook of ARDA") and not holds("Arda of Brook", "Brook of Arda")
    assert parse_written(HOP.format("Where is it?", "Arda"), EVIDENCE, "Velm") == BadReply(
        "question does not name its subject"
    )
    assert parse_written(TOWN, EVIDENCE, "Velm") == Written("Where does Velm lie?", "Arda")
    assert parse_chained(WHOLE, ["Arda", "Brook"]) == "Which river has the region of Velm?"


def test_draws_are_seeded_and_a_longer_list_begins_with_the_shorter(tmp_path: Path) -> None:
    rows = [{"id": f"p{n}", "title": "t", "text": f"text {n}"} for n in range(50)]
    table = [{"id": "t", "title": "Rivers", "text": "all", "header": ["a", "b"], "rows": [["x", 1], ["y", 2]]}]
    picture = [{"id": "i", "title": "Velm", "text": "Velm. A town", "image": "flags/v.png"}]
    shelves = [Shelf(TEXT, rows, tmp_path), Shelf(TABLE, table, tmp_path), Shelf(IMAGE, picture, tmp_path)]
    draws = draw_all(shelves, 5, 60)
    assert draw_all(shelves, 5, 20) == draws[:20] and draw_all(shelves, 6, 20) != draws[:20]
    assert {draw.kind for draw in draws} == set(Kind) and {draw.hops for draw in draws} == {1, 2, 3}
    of = {draw.kind: draw for draw in draws}
    assert of[Kind.ROW].text in {"Table: Rivers\nRow: a: x; b: 1", "Table: Rivers\nRow: a: y; b: 2"}
    assert of[Kind.PICTURE].image == str(tmp_path / "flags/v.png") and of[Kind.PASSAGE].image is None


def synthesize(config: Path, *words: str) -> Result:
    return CliRunner().invoke(app, ["synthesize", "--config", str(config), *words])


@pytest.fixture(scope="module")
def server() -> Any:
    with serving(Server()) as running:
        yield running


@pytest.fixture(scope="module")
def config(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_world(tmp_path_factory.mktemp("generated"), server.url)


def test_questions_are_generated_and_run_through_the_same_stages(config: Path, server: Server) -> None:
    done = synthesize(config, "--generate", "30")
    assert done.exit_code == 0, done.output
    out = config.parent / "runs" / "generated"
    counts = json.loads((out / "generated.questions.drops.json").read_text())
    rows = list(jsonl.read(out / "generated.questions.jsonl"))
    assert counts["asked"] == 30 and counts["kept"] == len(rows) and counts["dropped"]["asked before"] > 0
    assert {row["n_hops"] for row in rows} == {1, 2}
    ends = [row["hops"][-1]["source"] for row in rows]
    assert set(ends) == {"text retriever", "table retriever"}
    steps = [row for part in ("train", "valid") for row in jsonl.read(out / f"steps_{part}.jsonl")]
    drops = json.loads((out / "generated.drops.json").read_text())
    assert len(steps) == drops["kept"] > len(rows) / 2 and drops["asked"] == len(rows)
    calls = server.calls
    assert synthesize(config, "--generate", "30").exit_code == 0 and server.calls == calls


def test_more_questions_keep_those_there_are(config: Path, server: Server, tmp_path: Path) -> None:
    out = config.parent / "runs" / "generated" / "generated.questions.jsonl"
    assert synthesize(config, "--generate", "20").exit_code == 0
    fewer = list(jsonl.read(out))
    calls = server.calls
    assert synthesize(config, "--generate", "40").exit_code == 0
    assert list(jsonl.read(out))[: len(fewer)] == fewer and server.calls > calls


def test_generated_questions_may_be_their_own_gold(config: Path, edit: Callable[..., Path]) -> None:
    own = edit(config, {"own": {"generate": 20, "gold": True}})
    assert synthesize(own).exit_code == 0
    drops = json.loads((config.parent / "steps" / "own.drops.json").read_text())
    assert drops["kept"] == drops["asked"] > 5


def test_pictures_are_brought_beside_the_questions(server: Server, tmp_path: Path) -> None:
    config = build_world(tmp_path, server.url)
    rows = [{"id": f"image/{n}", "title": "t", "text": f"Velm{n:02}. A town", "image": f"{n}.png"} for n in range(6)]
    jsonl.rewrite(tmp_path / "image.jsonl", rows)
    for n in range(6):
        (tmp_path / f"{n}.png").write_bytes(bytes([n]))
    value = yaml.safe_load(config.read_text())
    value["sources"][1] |= {"name": "text image retriever", "tag": "tir", "passages": "image.jsonl", "image_root": "."}
    config.write_text(yaml.safe_dump(value | {"sources": value["sources"][1:]}))
    shutil.rmtree(tmp_path / "indexes")
    assert CliRunner().invoke(app, ["build", "--config", str(config)]).exit_code == 0
    synthesis = Synthesis(Deployment(with_set(load_config(config), "seen", SynthesisSet(generate=20))))
    synthesis.rollouts("seen")
    made = list(jsonl.read(tmp_path / "runs" / "seen" / "seen.questions.jsonl"))
    assert {row["question"] for row in made} == {"Which town is in the picture?"} and len(made) > 3
    for row in made:
        picture = tmp_path / "runs" / "seen" / row["image"]
        assert picture.parent.name == "seen.questions.pictures"
        assert picture.read_bytes() == bytes([int(row["hops"][0]["gold_ids"][0].removeprefix("image/"))])


@pytest.fixture
def edit() -> Callable[..., Path]:
    """Writes a config beside the given one, with sets of its own."""

    def edited(config: Path, sets: dict[str, Any]) -> Path:
        value = yaml.safe_load(config.read_text()) | {"synthesis": {"out": "steps", "sets": sets}}
        path = config.with_name("edited.yaml")
        path.write_text(yaml.safe_dump(value))
        return path

    return edited


@pytest.mark.parametrize("own", [{}, {"questions": "mine.jsonl", "generate": 3}])
def test_a_set_has_questions_or_generates_them(config: Path, edit: Callable[..., Path], own: dict[str, Any]) -> None:
    done = synthesize(edit(config, {"own": own}))
    assert done.exit_code == 1 and "either `questions` or `generate`" in " ".join(done.output.split())
