"""Every rule of step data: kept by the published file and by rows of any wording, told where a row breaks it."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from r1_router import jsonl
from r1_router.errors import DataError
from r1_router.prompts import answer_messages, final_messages, load_prompts, route_messages
from r1_router.prompts.sets import PromptSet
from r1_router.synthesis.check import Report, check_rows
from r1_router.synthesis.commands import steps_app
from r1_router.synthesis.rules import RULES
from r1_router.types import IMAGE, NONE, PUBLISHED_SOURCES, TABLE, TEXT, Passage, Query, Question, Source

SHARED = Path(__file__).parents[1].parent / "shared"
STEPS = SHARED / "datasets" / "grpo_dataset_valid_new.jsonl"
SCHEMA = SHARED / "golden" / "step_dataset_schema.json"
GOLDEN_ROWS = SHARED / "golden" / "synthesis_to_steps.jsonl"
MARK = "<image>"
NAMES = [rule.name for rule in RULES]

Hop = tuple[str, Source, Any]
"""A sub-question, the source asked, the sub-answer; None for a route that no answer follows."""
HOPS: tuple[Hop, ...] = (("who is x?", TEXT, "a man"), ("which city\nis it?", TABLE, "\nparis "))
WIDE = replace(
    load_prompts("guided"),
    answer_request="Labels: `ter` is text:{evidence}\n\n Give the answer to the Question: {question}",
    final_request="Now, the final answer of: {question}",
)
SETS = {"guided": load_prompts("guided"), "trained": load_prompts("trained"), "wide": WIDE}


def make(
    prompts: PromptSet = WIDE,
    hops: Sequence[Hop] = HOPS,
    *,
    stop: str | None = "none",
    image: str | None = None,
    shown: int = 5,
    sources: Sequence[Source] = PUBLISHED_SOURCES,
) -> dict[str, Any]:
    """A row as trajectories give it; `stop` is the sub-question of a last route to none."""
    question, history, steps = Question("q", "Who is X's\nfather?"), list[tuple[str, str]](), list[Any]()

    def add(kind: str, messages: Sequence[Any], answer: Any) -> None:
        system, problem = messages[0]["content"], messages[-1]["content"] + (MARK if image else "")
        steps.append({"step_type": kind, "problem": problem, "system": system, "answer": answer})

    for query, source, answer in hops:
        route = {"query": query, "retriever": [source.name]}
        add("ret", route_messages(prompts, question, history, sources), route)
        if answer is not None:
            passages = [Passage(str(n), f"line {n}\n\nx-1: more of {query}", 1.0, source) for n in range(shown)]
            add("ans", answer_messages(prompts, Query(query), passages), answer)
            history.append((query, str(answer)))
    if stop is not None:
        add("ret", route_messages(prompts, question, history, sources), {"query": stop, "retriever": [NONE]})
    add("ans", final_messages(prompts, question, history), ["Hans", "Hans Braun"])
    return {"images": [image] if image else [], "steps": steps}


def broken(report: Report) -> set[str]:
    return {finding.rule for finding in report.findings if finding.violations}


def test_the_published_file_keeps_every_rule_as_often_as_published() -> None:
    rows, schema = published()
    report = check_rows(rows)
    counts = {one["rule"]: (one["checked"], one["violations"]) for one in schema["invariants"]}
    assert {one.rule: (one.checked, len(one.violations)) for one in report.findings} == counts
    assert len(report.findings) == 18 and report.sound


def test_the_oddities_of_the_published_file_are_counted() -> None:
    rows, schema = published()
    known = schema["statistics"]
    assert check_rows(rows).oddities == {
        "sub-questions with outer whitespace": known["queries_with_outer_whitespace"],
        "sub-answers with outer whitespace": known["intermediate_answers_with_outer_whitespace"],
        "blank sub-answers": known["blank_intermediate_answers"],
        "rows that repeat a sub-question": known["rows_that_repeat_a_sub_question"],
        "rows with an absolute image path": known["rows_with_image"],
        "prompts of more than 3,500 characters": known["characters_in_problem_over_3500"],
        "different system texts of a route": sum(name.startswith("ret:") for name in known["system_texts"]),
    }


def published() -> tuple[list[Any], Any]:
    if not (STEPS.is_file() and SCHEMA.is_file()):
        pytest.skip(f"the published step data ({STEPS.name}) and its schema are not here")
    return list(jsonl.read(STEPS)), json.loads(SCHEMA.read_text())


def test_the_rows_that_the_reference_makes_are_sound() -> None:
    if not GOLDEN_ROWS.is_file():
        pytest.skip("the golden data (../shared/golden) is not here")
    rows = [case["step_row"] for case in jsonl.read(GOLDEN_ROWS) if case["step_row"]]
    assert len(rows) > 5 and broken(check_rows(rows)) == set()


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("image", [None, "pictures/a.jpg"])
def test_rows_in_any_wording_are_sound(name: str, image: str | None) -> None:
    prompts = SETS[name]
    rows = [
        make(prompts, image=image),
        make(prompts, (*HOPS, ("what is seen?", IMAGE, "")), stop=None, image=image),
        make(prompts, (), image=image),
        make(prompts, HOPS[:1], stop=" none\n", image=image),
    ]
    report = check_rows(rows)
    assert broken(report) == set()
    assert [finding.checked for finding in report.findings] == [4] * 5 + [9] * 5 + [6] * 5 + [3] + [4] * 2


def test_two_wordings_in_one_file_are_odd_but_sound() -> None:
    report = check_rows([make(SETS["guided"]), make(SETS["guided"]), make(WIDE)])
    assert report.sound
    assert report.oddities["different requests for a sub-answer"] == 2
    assert report.oddities["different requests for a final answer"] == 2


def test_other_sources_and_fewer_passages_are_taken_from_what_is_configured() -> None:
    code = Source("code retriever", "cod", "programs")
    hops = [("which function?", code, "main")]
    row = make(hops=hops, shown=3, sources=[code])
    report = check_rows([row], [code], 3)
    assert report.sound and "3 passages numbered 0..2 of the one chosen retriever" in [f.rule for f in report.findings]
    assert broken(check_rows([row])) == {"retriever is one of the four names, lower case"}
    assert broken(check_rows([row], [code])) == {"five passages numbered 0..4 of the one chosen retriever"}


def edited(edit: Callable[[Any], object], row: dict[str, Any] | None = None) -> dict[str, Any]:
    """A row after `edit` of its steps."""
    changed = copy.deepcopy(row or make())
    edit(changed["steps"])
    return changed


def put(index: int, key: str, value: Any) -> dict[str, Any]:
    return edited(lambda steps: steps[index].update({key: value}))


def swap(index: int, old: str, new: str, row: dict[str, Any] | None = None) -> dict[str, Any]:
    """A row with `old` in one of its prompts replaced; it must stand there."""

    def edit(steps: Any) -> None:
        assert old in steps[index]["problem"]
        steps[index]["problem"] = steps[index]["problem"].replace(old, new)

    return edited(edit, row)


def text_target(query: str, *names: str) -> dict[str, Any]:
    return {"query": query, "retriever": list(names)}


PICTURE = make(image="a.jpg")
FOUR = (*HOPS, *(("where?", TEXT, "there"), ("when?", TEXT, "then")))
BREACHES: list[tuple[int, dict[str, Any], set[int]]] = [
    # number of the rule, the row that breaks it, the rules that it cannot but break as well
    (1, edited(lambda steps: steps.pop(0)), {3, 6, 17}),
    (2, edited(lambda steps: steps.pop()), {3, 16}),
    (3, make(hops=[HOPS[0], ("and?", TEXT, None), HOPS[1]], stop=None), set()),
    (3, put(4, "step_type", "final"), set()),
    (4, make(hops=FOUR, stop=None), {3}),
    (5, make(image="a.jpg") | {"images": ["a.jpg", "b.jpg"]}, set()),
    (6, swap(2, "Sub-question1: who is x?\n", ""), set()),
    (6, swap(2, "Answer1: a man", "Answer1: the man"), set()),
    (6, swap(2, "father", "mother"), set()),
    (6, swap(0, "Origin question: ", "Question: "), set()),
    (6, swap(2, MARK, "", PICTURE), set()),
    (6, put(2, "problem", make()["steps"][2]["problem"] + MARK), set()),
    (7, put(0, "answer", {"query": "who is x?", "retriever": "text retriever"}), set()),
    (7, put(0, "answer", text_target("who is x?", "text retriever", "table retriever")), set()),
    (7, put(0, "answer", {**text_target("who is x?", "text retriever"), "thought": "hm"}), set()),
    (7, put(4, "answer", "none"), {3}),
    (8, put(0, "answer", text_target("who is x?", "Text Retriever")), set()),
    (8, put(0, "answer", text_target("who is x?", "web retriever")), set()),
    (8, put(4, "answer", text_target("none", "None")), set()),
    (9, make(hops=[("Who is x?", TEXT, "a man")]), set()),
    (10, make(hops=[("none", TEXT, "a man")]), set()),
    (10, make(stop="who is y?"), set()),
    (11, put(1, "problem", "Question: who is x?"), set()),
    (11, swap(1, "\n\n Give", " Give"), set()),
    (12, swap(1, "Question: who is x?", "Question: who is y?"), set()),
    (12, swap(1, "Question: who is x?", "Question: say, who is x?"), set()),
    (13, put(1, "problem", make()["steps"][1]["problem"] + MARK), set()),
    (13, swap(1, MARK, "", PICTURE), set()),
    (14, make(hops=HOPS, shown=4), set()),
    (14, make(hops=HOPS, shown=6), set()),
    (14, swap(1, "ter-", "tar-"), set()),
    (14, swap(1, "ter-0: ", "ter-5: "), set()),
    (14, swap(1, "ter-", "text-"), set()),
    (15, make(hops=[("who is x?", TEXT, "A man")]), set()),
    (15, make(hops=[("who is x?", TEXT, 7)]), set()),
    (16, edited(lambda steps: steps.insert(5, copy.deepcopy(steps[3]))), {3, 12, 17}),
    (16, make(hops=[("none", Source(NONE, "ter", ""), "a man")], stop=None), {3}),
    (17, swap(5, "Now, the final answer of: Who is X's\nfather?", ""), set()),
    (17, swap(5, "final answer of: Who", "final answer of: When"), set()),
    (17, swap(5, "Sub-question2: which city\nis it?\nAnswer2: \nparis \n", ""), set()),
    (17, swap(5, "Now,", "Sub-question3: why?\nAnswer3: so\nNow,"), set()),
    (17, swap(5, MARK, "", PICTURE), set()),
    (18, put(5, "answer", []), set()),
    (18, put(5, "answer", "Hans"), set()),
    (18, put(5, "answer", ["Hans", 7]), set()),
]


@pytest.mark.parametrize(("rule", "row", "others"), BREACHES)
def test_a_breach_is_told_under_its_own_rule(rule: int, row: dict[str, Any], others: set[int]) -> None:
    report = check_rows([make(), make(image="b.jpg"), row])
    assert broken(report) == {NAMES[number - 1] for number in {rule, *others}}
    assert {violation.row for finding in report.findings for violation in finding.violations} == {3}
    assert all(violation.found for finding in report.findings for violation in finding.violations)


def test_every_rule_has_a_breach() -> None:
    assert {rule for rule, _, _ in BREACHES} == set(range(1, len(RULES) + 1))


@pytest.mark.parametrize(
    "row",
    [
        {"question": "q"},
        {"images": [], "steps": []},
        {**make(), "id": 7},
        {"images": [3], "steps": make()["steps"]},
        {"images": [], "steps": ["ret"]},
        {"images": [], "steps": [{"step_type": "ret", "problem": "p", "answer": ""}]},
        {"images": [], "steps": [{"step_type": "ret", "problem": None, "system": "", "answer": ""}]},
    ],
)
def test_what_is_no_step_row_is_an_error_that_names_the_row(row: dict[str, Any]) -> None:
    with pytest.raises(DataError, match="row 2"):
        check_rows([make(), row])


def test_the_command_tells_the_first_rows_that_break_a_rule(tmp_path: Path) -> None:
    file = tmp_path / "steps.jsonl"
    jsonl.rewrite(file, [make(), put(1, "answer", "A Man"), put(5, "answer", []), put(5, "answer", [])])
    done = CliRunner().invoke(steps_app, ["check", str(file), "--rows", "2"])
    assert done.exit_code == 1
    assert "row 2, step 2 breaks: intermediate answer is a str in lower case; found 'A Man'" in done.output
    assert "row 3, step 6" in done.output and "row 4" not in done.output and "and 1 more rows" in done.output
    assert "4 checked  2 broken     final answer is a non-empty list of str" in done.output
    assert "oddity: sub-answers with outer whitespace: 4" in done.output


def test_the_command_is_content_with_a_sound_file(tmp_path: Path) -> None:
    file = tmp_path / "steps.jsonl"
    jsonl.rewrite(file, [make()])
    done = CliRunner().invoke(steps_app, ["check", str(file)])
    assert done.exit_code == 0 and done.output.count(" ok ") == len(RULES)
    missing = CliRunner().invoke(steps_app, ["check", str(tmp_path / "none.jsonl")])
    assert isinstance(missing.exception, DataError) and "no file" in str(missing.exception)


def test_the_command_takes_sources_and_passages_from_a_config(tmp_path: Path) -> None:
    file, config = tmp_path / "steps.jsonl", Path(__file__).parents[1] / "configs" / "factbook.yaml"
    jsonl.rewrite(file, [make(SETS["trained"], shown=3)])
    assert CliRunner().invoke(steps_app, ["check", str(file)]).exit_code == 1
    done = CliRunner().invoke(steps_app, ["check", str(file), "--config", str(config)], catch_exceptions=False)
    assert done.exit_code == 0 and "3 passages numbered 0..2 of the one chosen retriever" in done.output
