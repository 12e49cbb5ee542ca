"""Routes, retrieval, losses and costs on trajectories made by hand."""

import json
from pathlib import Path
from typing import Any

import pytest

from r1_router.diagnosis import Stage, answer_hits, costs, losses, retrieval, routing, stages
from r1_router.errors import DataError
from r1_router.hops import GoldHop, due, gold_hops
from r1_router.summary import hit_rates, summarise
from r1_router.types import IMAGE, TABLE, TEXT, Answer, Passage, Plan, Question, Source, Step, Trajectory, Usage

STOP = {"source": "none", "query": "none"}
WORLD = Path(__file__).parents[1].parent / "shared" / "ottqa_world" / "questions_dev.jsonl"


def hop(source: Source, *gold_ids: str, answer: str = "Fiji") -> dict[str, Any]:
    return {"source": source.name, "query": "q", "gold_ids": list(gold_ids), "answer": answer}


def step(source: Source | None, *ids: str, answer: str | None = "fiji") -> Step:
    """A planned step of one source, whose passages have these ids; None stops."""
    passages = tuple(Passage(id_, f"text of {id_}", 1.0, source) for id_ in ids) if source else ()
    plan = Plan("thought", "q", (source,)) if source else Plan("thought", "none")
    return Step(plan, passages, Answer("", answer) if source and answer is not None else None)


def everywhere(*ids: str, answer: str | None = None) -> Step:
    """One retrieval from the text and table sources, each finding these ids."""
    passages = tuple(Passage(id_, "t", 1.0, source) for source in (TEXT, TABLE) for id_ in ids)
    return Step(Plan("", "q", (TEXT, TABLE)), passages, None if answer is None else Answer("", answer))


def trajectory(hops: list[dict[str, Any]], *steps: Step, answer: str = "Suva", error: str | None = None) -> Trajectory:
    question = Question("q", "?", ["Oslo"], extra={"hops": hops})
    return Trajectory(question, steps, None if error else Answer("", answer), error=error)


def question_alone(gold: Any, *steps: Step) -> Trajectory:
    return Trajectory(Question("q", "?", gold), steps, Answer("", "x"))


def test_hops_are_read_by_source_or_by_base_and_end_before_the_stop() -> None:
    world = {"hops": [{"kb": "image", "gold_ids": ["i"]}, {"kb": "table", "gold_ids": ["t"]}]}
    read = gold_hops(Question("q", "?", extra=world))
    assert read == (
        GoldHop("text image retriever", frozenset({"i"}), None),
        GoldHop("table retriever", frozenset({"t"}), None),
    )
    factbook = Question("q", "?", extra={"hops": [hop(TEXT, "a", answer="1825"), STOP]})
    assert [(one.source, one.answer) for one in gold_hops(factbook)] == [("text retriever", "1825")]
    assert due(factbook) == ["text retriever", "none"]
    assert due(Question("q", "?", extra={"hops": [hop(TEXT)] * 3})) == ["text retriever"] * 3
    assert due(Question("q", "?")) == due(Question("q", "?", extra={"hops": 2})) == []


@pytest.mark.parametrize("bad", [{"kb": "sound"}, {"gold_ids": ["a"]}, 7])
def test_a_hop_without_a_known_source_is_an_error_that_shows_it(bad: Any) -> None:
    with pytest.raises(DataError, match=r"question q: .*'source'"):
        gold_hops(Question("q", "?", extra={"hops": [bad]}))


@pytest.mark.skipif(not WORLD.exists(), reason="the OTT-QA world is not beside the project")
def test_every_question_of_the_ottqa_world_has_a_gold_path() -> None:
    rows = [json.loads(line) for line in WORLD.read_text(encoding="utf-8").splitlines()]
    paths = [gold_hops(Question(row["id"], row["question"], extra=row)) for row in rows]
    assert {one.source for path in paths for one in path} == {TEXT.name, IMAGE.name, TABLE.name}
    assert all(one.ids for path in paths for one in path) and all(paths)


def test_routing_counts_every_choice_that_was_due() -> None:
    two = [hop(TEXT), hop(TABLE), STOP]
    found = routing(
        [
            trajectory(two, step(TEXT), step(TABLE), step(None)),
            trajectory(two, step(TABLE), step(None)),
            trajectory(two, step(TEXT), Step(Plan("", "q", (TEXT, TABLE)))),
            trajectory([hop(TEXT)], error="EngineError: gone"),
        ]
    )
    assert found is not None
    text, table = TEXT.name, TABLE.name
    assert dict(found.steps[0]) == {(text, text): 2, (text, table): 1, (text, "other"): 1}
    assert dict(found.steps[1]) == {(table, table): 1, (table, "none"): 1, (table, "other"): 1, ("none", "other"): 1}
    assert dict(found.steps[2]) == {("none", "none"): 1, ("none", "other"): 2}
    assert found.accuracy == pytest.approx(4 / 11)


def test_there_is_no_routing_without_a_choice_or_without_gold() -> None:
    assert routing([trajectory([hop(TEXT)], everywhere("a"))]) is None
    assert routing([question_alone("x", step(TEXT), step(None))]) is None
    assert routing([trajectory([hop(TEXT)])]) is None


def test_retrieval_by_source_and_depth() -> None:
    found = retrieval(
        [
            trajectory([hop(TEXT, "g", "h")], step(TEXT, "a", "g", "h")),
            trajectory([hop(TEXT, "g")], step(TEXT, "a", "b")),
            trajectory([hop(TEXT, "g")], step(TEXT, *"abcdef", "g")),
            trajectory([hop(TABLE, "g")], step(TABLE, "g")),
            trajectory([hop(TABLE, "g")], step(TEXT, "g")),
            trajectory([hop(TEXT)], step(TEXT, "g")),
        ]
    )
    assert list(found) == ["table retriever", "text retriever"]
    text, table = found["text retriever"], found["table retriever"]
    assert (text.n, text.hit) == (3, {1: 0, 5: pytest.approx(1 / 3), 10: pytest.approx(2 / 3)})
    assert text.mrr == pytest.approx((1 / 2 + 0 + 1 / 7) / 3)
    assert text.recall == {1: 0, 5: pytest.approx(1 / 3), 10: pytest.approx(2 / 3)}
    assert (table.n, table.hit, table.mrr) == (1, {1: 1, 5: 1, 10: 1}, 1)


def test_recall_is_the_share_of_the_known_gold_passages() -> None:
    found = retrieval([trajectory([hop(TEXT, *"ghij")], step(TEXT, "g", "a", "b", "c", "d", "h"))])
    assert found["text retriever"].recall == {1: 0.25, 5: 0.25, 10: 0.5}


def test_a_method_that_does_not_route_is_met_by_the_best_of_its_steps() -> None:
    hops = [hop(TEXT, "g"), hop(TABLE, "h")]
    found = retrieval([trajectory(hops, everywhere("a", "h"), everywhere("g"))])
    assert (found["text retriever"].hit[1], found["table retriever"].mrr) == (1, 0.5)


def test_figures_are_those_of_the_summary() -> None:
    many = [
        trajectory([hop(TEXT, "g"), STOP], step(TEXT, "a", "g"), step(None)),
        trajectory([hop(TEXT, "g"), hop(TABLE, "h")], step(TEXT, "a"), step(TEXT), step(None)),
        trajectory([hop(TABLE, "h")], error="EngineError: gone"),
    ]
    summary = summarise(many, benchmark="b", method="m", model="l", seconds_per_question=None)
    choices = routing(many)
    assert choices is not None and round(choices.accuracy, 4) == summary["routing_accuracy"]
    assert {source: one.hit[5] for source, one in retrieval(many).items()} == hit_rates(many)


def test_answers_are_looked_for_in_passages_where_no_gold_ones_are_known() -> None:
    def read(source: Source, *texts: str) -> Step:
        return Step(Plan("t", "q", (source,)), tuple(Passage("", text, 0.0, source) for text in texts))

    far = ["nothing"] * 6
    found = answer_hits(
        [
            question_alone(["Suva", "the city of Suva"], read(TEXT, "Its capital is Suva.")),
            question_alone("Suva", read(TEXT, "Suvas"), read(TEXT, *far, "(suva)")),
            question_alone("Suva", read(TEXT, "Suvarnabhumi"), read(TABLE, "x")),
            question_alone("yes", read(TEXT, "yes")),
            question_alone({"range": [1, 2]}, read(TEXT, "1.5")),
            trajectory([hop(TEXT, "g")], read(TEXT, "Oslo")),
        ]
    )
    text, table = found["text retriever"], found["table retriever"]
    assert (text.n, table.n, table.hit[10]) == (3, 1, 0)
    assert text.hit == {1: pytest.approx(1 / 3), 5: pytest.approx(1 / 3), 10: pytest.approx(2 / 3)}


GOLD = [hop(TEXT, "g"), hop(TABLE, "h", answer="7"), STOP]
MET = step(TEXT, "g")
UNTOLD = [{"kb": "text", "gold_ids": ["g"]}]
ENDINGS: dict[str, tuple[Trajectory, Stage]] = {
    "right": (trajectory(GOLD, answer="it is Oslo"), Stage.RIGHT),
    "failed": (trajectory(GOLD, MET, error="EngineError: gone"), Stage.FAILED),
    "stopped at once": (trajectory(GOLD, step(None)), Stage.ROUTING),
    "another source": (trajectory(GOLD, step(TABLE, "g", answer="x")), Stage.ROUTING),
    "first hop not found": (trajectory(GOLD, step(TEXT, "a", answer="x")), Stage.RETRIEVAL),
    "first hop found too low": (trajectory(GOLD, step(TEXT, *"abcde", "g", answer="x")), Stage.RETRIEVAL),
    "first hop misread": (trajectory(GOLD, step(TEXT, "a", "g", answer="x")), Stage.SUB_ANSWER),
    "met without its passage": (trajectory(GOLD, step(TEXT, "a"), step(None)), Stage.ROUTING),
    "met from another source": (trajectory(GOLD, step(TABLE, "a"), step(TABLE, "a", answer="8")), Stage.RETRIEVAL),
    "second hop misread": (trajectory(GOLD, MET, step(TABLE, "h", answer="8")), Stage.SUB_ANSWER),
    "all met": (trajectory(GOLD, MET, step(TABLE, "h", answer="7"), step(None)), Stage.FINAL),
    "no answer to the hop": (trajectory(UNTOLD, step(TEXT, "g", answer="x"), step(None)), Stage.FINAL),
    "no answer, not found": (trajectory(UNTOLD, step(TEXT, "a", answer="x"), step(None)), Stage.RETRIEVAL),
    "a step without sub-answer": (trajectory([hop(TEXT, "g")], step(TEXT, "g", answer=None)), Stage.FINAL),
    "no passages known": (trajectory([hop(TEXT)], step(TEXT, answer="x")), Stage.SUB_ANSWER),
}


@pytest.mark.parametrize(("lost", "stage"), ENDINGS.values(), ids=ENDINGS)
def test_a_question_is_lost_where_its_gold_path_first_went_wrong(lost: Trajectory, stage: Stage) -> None:
    assert stages([lost, trajectory(GOLD, MET)])[0] is stage


def test_methods_that_do_not_route_are_not_lost_in_routing() -> None:
    hops = [hop(TEXT, "g"), hop(TABLE, "h")]
    retrieved_once = [trajectory(hops, everywhere("g", "h")), trajectory(hops, everywhere("g"))]
    assert stages(retrieved_once) == [Stage.FINAL, Stage.RETRIEVAL]
    misread = [trajectory(hops, everywhere("x"), everywhere("g", "h", answer="x"))]
    assert stages(misread) == [Stage.SUB_ANSWER]
    assert stages([trajectory(hops)]) == [Stage.FINAL]


def test_losses_add_up_to_the_questions_with_a_gold_path() -> None:
    many = [one for one, _ in ENDINGS.values()]
    found = losses([*many, question_alone("x", step(TEXT))])
    assert list(found) == list(Stage) and sum(found.values()) == len(many)
    assert (found[Stage.RIGHT], found[Stage.FAILED], found[Stage.ROUTING]) == (1, 1, 3)
    assert losses([question_alone("x", step(TEXT))]) == {}


def test_costs_are_means_over_the_questions_that_noted_them() -> None:
    steps = (step(TEXT), step(TEXT), step(None))
    answer = Answer("", "x")
    found = costs(
        [
            Trajectory(
                Question("1", "?"),
                steps,
                answer,
                Usage(calls=6, retrievals=2, malformed=1, prompt_tokens=600, seconds=4.0),
            ),
            Trajectory(
                Question("2", "?"),
                (everywhere("a"),),
                answer,
                Usage(calls=1, retrievals=2, prompt_tokens=200, seconds=1.0),
            ),
            Trajectory(Question("3", "?"), error="EngineError: gone"),
        ]
    )
    assert found is not None
    assert (found.n, found.plans) == (2, 1.5)
    expected = {"calls": 3.5, "retrievals": 2, "malformed": 0.5, "prompt_tokens": 400, "seconds": 2.5}
    assert {name: found.usage[name] for name in expected} == expected and found.usage["completion_tokens"] == 0
    assert costs([question_alone("x", step(TEXT))]) is None
