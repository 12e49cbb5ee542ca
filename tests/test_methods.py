"""Methods against the reference's own runs: call order, roles, evidence and history lines, retries."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from r1_router.errors import ConfigError, PromptTooLong
from r1_router.llm.content import text_of
from r1_router.llm.scripted import ScriptedLLM
from r1_router.methods import METHODS, Event, Settings, make_method
from r1_router.methods.work import RETRY_TEMPERATURE
from r1_router.prompts import answer_messages, load_prompts, prompt_set_names, without_last_passage
from r1_router.types import (
    IMAGE,
    TABLE,
    TEXT,
    Message,
    Passage,
    Query,
    Question,
    Reply,
    Sampling,
    Source,
    Step,
    Trajectory,
)

GOLDEN = Path(__file__).parents[1].parent / "shared" / "golden"
HISTORY = re.compile(r"^(?:Sub-question|Answer)\d+: .*$", re.MULTILINE)
EVIDENCE = re.compile(r"(?:ter|tir|tar)-\d+: (?:ter|tir|tar) passage \d+ on .*$", re.MULTILINE)
GOOD_PLAN = "<think>T</think>\n<sub-question>{}</sub-question>\n<ret>{}</ret>"
STOP = GOOD_PLAN.format("none", "none")
GOOD_ANSWER = "<think>t</think>\n<answer>{}</answer>"


class ListedSource:
    """A retriever over `n` numbered passages that keeps the queries it gets."""

    def __init__(self, source: Source, n: int = 10) -> None:
        self.source, self.n, self.queries = source, n, list[Query]()

    async def search(self, query: Query, k: int) -> list[Passage]:
        self.queries.append(query)
        texts = [f"{self.source.tag} passage {i} on {query.text}" for i in range(min(k, self.n))]
        return [Passage(f"{self.source.tag}{i}", text, -i, self.source) for i, text in enumerate(texts)]


def shelves(n: int = 10) -> dict[Source, ListedSource]:
    return {source: ListedSource(source, n) for source in (TEXT, IMAGE, TABLE)}


def run(
    method: str,
    question: Question,
    llm: ScriptedLLM,
    found: Mapping[Source, ListedSource],
    prompts: str = "trained",
    **settings: Any,
) -> Trajectory:
    return finished(make_method(method, Settings(load_prompts(prompts), **settings))(question, llm, found))


def finished(trajectory: Awaitable[Trajectory]) -> Trajectory:
    """What a method's coroutine comes to."""

    async def go() -> Trajectory:
        return await trajectory

    return asyncio.run(go())


def golden_rows() -> list[Any]:
    path = GOLDEN / "trajectory_messages.jsonl"
    if not path.exists():
        return [pytest.param(None, marks=pytest.mark.skip(reason=f"{path} is not here"))]
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    assert all(row["error"] is None for row in rows)
    return [pytest.param(row, id=f"{row['name']}-{row['variant']}") for row in rows]


def images(messages: Sequence[Message]) -> list[str]:
    content = messages[-1]["content"]
    return [part["image"] for part in content if part["type"] == "image"] if isinstance(content, list) else []


def lines_of(message: Message) -> tuple[list[str], list[str]]:
    text = text_of(message)
    return HISTORY.findall(text), EVIDENCE.findall(text)


@pytest.mark.parametrize("row", golden_rows())
def test_routed_loop_sends_what_the_reference_sends(row: dict[str, Any]) -> None:
    """Roles, origin line, history, evidence, images and call order; system texts, examples and wording are ours.

    `literal` rows are the reference's code as it is, which forgets all steps once a plan says none.
    """
    shown = [images(call["messages"]) for call in row["calls"]]
    question = Question("q", row["record"]["question"], image=shown[0][0] if shown and shown[0] else None)
    llm = ScriptedLLM(row["script"])
    found = shelves(row["passages_per_retriever"])
    trajectory = run("r1-router", question, llm, found, forget_on_stop=row["variant"] == "literal")
    assert len(llm.calls) == len(row["calls"])
    for ours, theirs in zip(llm.calls, row["calls"], strict=True):
        examples = len(theirs["messages"]) - len(ours.messages)
        assert examples in (0, 16)
        without_examples = theirs["messages"][:1] + theirs["messages"][1 + examples :]
        assert [m["role"] for m in ours.messages] == [m["role"] for m in without_examples]
        assert lines_of(ours.messages[-1]) == lines_of(theirs["messages"][-1])
        assert images(ours.messages) == images(theirs["messages"])
        if theirs["purpose"] == "route" and len(theirs["messages"]) in (2, 18):
            assert text_of(ours.messages[-1]) == text_of(theirs["messages"][-1])
    assert trajectory.answer is not None
    assert trajectory.answer.to_json() == row["output_record"]["llm_answer"]
    for number, step in enumerate(trajectory.steps):
        published = row["output_record"][f"plan_{number}"]
        names = [source.name for source in step.plan.sources] or ["none"]
        assert names == [name for n, name in enumerate(published["retriever"]) if n == 0 or name != "none"]
        assert step.plan.query == published["query"]
        assert (step.answer.to_json() if step.answer else {"thought": "", "answer": ""}) == published["answer"]


def retry_rows(task: str) -> list[dict[str, Any]]:
    path = GOLDEN / "parsing.jsonl"
    if not path.exists():
        pytest.skip(f"{path} is not here")
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    return [row for row in rows if row["task"] == task and row["outcome"] == "ok" and row.get("model") != "qwen2.5"]


def test_plan_retries_as_the_reference() -> None:
    for row in retry_rows("router_retry"):
        llm = ScriptedLLM([*row["inputs"][: row["calls"]], *[GOOD_ANSWER.format("x"), STOP] * 2])
        first = run("r1-router", Question("q", "who?"), llm, shelves()).steps[0].plan
        assert [len(call.messages) for call in llm.calls[: row["calls"]]] == row["n_messages_per_call"]
        assert [call.messages[-1]["role"] for call in llm.calls[: row["calls"]]] == ["user"] * row["calls"]
        names = [source.name for source in first.sources] or ["none"]
        assert {"thought": first.thought, "query": first.query, "retriever": names} == row["result"]


def test_answer_retries_as_the_reference() -> None:
    for row in retry_rows("answer_retry_final") + retry_rows("answer_retry"):
        llm = ScriptedLLM([STOP, *row["inputs"]])
        trajectory = run("r1-router", Question("q", "who?"), llm, shelves())
        assert [len(call.messages) for call in llm.calls[1:]] == row["n_messages_per_call"]
        assert trajectory.answer is not None and trajectory.answer.to_json() == row["result"]


def test_retries_are_sampled_with_other_seeds_and_counted() -> None:
    llm = ScriptedLLM(["bad", "bad", STOP, GOOD_ANSWER.format("x")])
    trajectory = run("r1-router", Question("q", "who?"), llm, shelves(), sampling=Sampling(seed=3))
    assert [call.sampling.temperature for call in llm.calls] == [0.0, RETRY_TEMPERATURE, RETRY_TEMPERATURE, 0.0]
    assert len({call.sampling.seed for call in llm.calls}) == 4
    assert (trajectory.usage.calls, trajectory.usage.malformed, trajectory.usage.retrievals) == (4, 2, 0)
    assert trajectory.usage.completion_tokens == 1 + 1 + 3 + 2


def test_image_goes_to_the_image_source_only_and_queries_are_lower_case() -> None:
    found = shelves()
    llm = ScriptedLLM(
        [
            GOOD_PLAN.format("Which Flag?", "text image retriever, text retriever"),
            GOOD_ANSWER.format("A"),
            STOP,
            GOOD_ANSWER.format("A"),
        ]
    )
    run("r1-router", Question("q", "Whose?", image="f.png"), llm, found)
    assert found[IMAGE].queries == [Query("which flag?", "f.png")]
    assert found[TEXT].queries == [Query("which flag?", None)]
    assert found[TABLE].queries == []


@pytest.mark.parametrize(
    ("method", "evidence"),
    [
        ("direct", []),
        ("cot", []),
        ("rag-text", ["ter"]),
        ("rag-image", ["tir"]),
        ("rag-table", ["tar"]),
        ("rag", ["ter", "tir", "tar"]),
    ],
)
def test_baselines_call_once_and_see_their_own_evidence(method: str, evidence: list[str]) -> None:
    llm = ScriptedLLM([GOOD_ANSWER.format("Oslo")])
    trajectory: Trajectory = run(method, Question("q", "Which Town?"), llm, shelves(), shown=2)
    assert trajectory.answer is not None and trajectory.answer.text == "oslo"
    assert len(llm.calls) == 1
    tags = [line.split("-")[0] for line in lines_of(llm.calls[0].messages[-1])[1]]
    assert tags == [tag for tag in evidence for _ in range(2)]
    assert "Which Town?" in text_of(llm.calls[0].messages[-1])
    assert len(trajectory.steps) == (1 if evidence else 0)


def test_direct_takes_an_untagged_reply_at_once() -> None:
    llm = ScriptedLLM([" Oslo "])
    trajectory = run("direct", Question("q", "Which?"), llm, shelves())
    assert trajectory.answer is not None and trajectory.answer.text == "oslo" and len(llm.calls) == 1
    assert trajectory.usage.malformed == 0


def test_events_show_each_step_as_it_grows() -> None:
    events: list[Event] = []
    llm = ScriptedLLM(
        [GOOD_PLAN.format("a?", "table retriever"), GOOD_ANSWER.format("b"), STOP, GOOD_ANSWER.format("c")]
    )
    trajectory = run("r1-router", Question("q", "Which?"), llm, shelves(), on_event=events.append)
    steps = [event for event in events if isinstance(event, Step)]
    assert [(len(s.passages), s.answer is None) for s in steps] == [(0, True), (10, True), (10, False), (0, True)]
    assert events[-1] == trajectory.answer
    assert tuple(steps[2:]) == trajectory.steps


def test_unknown_method_names_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="r1-router"):
        make_method("r1router", Settings(load_prompts("trained")))


@pytest.mark.parametrize("name", prompt_set_names())
@pytest.mark.parametrize("method", METHODS)
def test_every_prompt_set_serves_every_method(name: str, method: str) -> None:
    llm = ScriptedLLM(lambda messages: STOP if "<ret>" in text_of(messages[0]) else GOOD_ANSWER.format("x"))
    question = Question("q", "Who, {sources}?", extra={"hops": [{"source": "text retriever"}, {"source": "none"}]})
    run(method, question, llm, shelves(), prompts=name)
    for call in llm.calls:
        roles = [message["role"] for message in call.messages]
        assert roles[0] == "system" and roles[1::2] == ["user"] * (len(roles) // 2)
        assert "{" not in text_of(call.messages[0])


def test_prompt_sets_say_what_the_adapter_is_trained_on() -> None:
    prompts = load_prompts("trained")
    assert prompts.answer.system == "Answer the question from the evidence."
    assert prompts.final.system == "Give the final answer." and prompts.final_request == ""
    assert prompts.router.system.count("\n") == 0 and prompts.router.shots == ()


def test_unknown_prompt_set_names_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="guided, trained"):
        load_prompts("released")


class ShortContext:
    """A model whose context holds so many words; it keeps what it was asked."""

    def __init__(self, words: int, replies: Sequence[str]) -> None:
        self.words, self.script, self.calls = words, list(replies), list[Sequence[Message]]()

    async def chat(self, messages: Sequence[Message], *, sampling: Sampling) -> Reply:
        if sum(len(text_of(message).split()) for message in messages) > self.words:
            raise PromptTooLong("too long")
        self.calls.append(messages)
        return Reply(self.script.pop(0))


def test_a_prompt_too_long_loses_passages_from_its_end_and_nothing_else() -> None:
    question = Question("q", "Which town is it?", image="flag.png")
    for image in (None, "flag.png"):
        question = Question("q", "Which town is it?", image=image)
        full = ScriptedLLM([GOOD_ANSWER.format("x")])
        run("rag", question, full, shelves(), shown=2)
        length = sum(len(text_of(message).split()) for message in full.calls[0].messages)
        short = ShortContext(length - 10, [GOOD_ANSWER.format("x")])
        trajectory = finished(
            make_method("rag", Settings(load_prompts("trained"), shown=2))(question, short, shelves())
        )
        kept = text_of(short.calls[0][-1])
        assert [line.split(":")[0] for line in kept.splitlines() if "passage" in line] == [
            "ter-0",
            "ter-1",
            "tir-0",
            "tir-1",
        ]
        assert kept.endswith("\n\nQuestion: Which town is it?") and images(short.calls[0]) == ([image] if image else [])
        assert (trajectory.usage.dropped, trajectory.usage.calls) == (2, 1)


def test_a_question_too_long_by_itself_fails() -> None:
    short = ShortContext(5, [])
    with pytest.raises(PromptTooLong):
        finished(make_method("rag", Settings(load_prompts("trained")))(Question("q", "Which?"), short, shelves()))


def test_shortened_prompts_are_those_with_fewer_passages() -> None:
    passages = [Passage(str(n), f"text {n}\nsecond line", 0.0, source) for source in (TEXT, TABLE) for n in range(2)]
    prompts = load_prompts("guided")
    for count in range(4, 0, -1):
        longer = answer_messages(prompts, Query("a?", "flag.png"), passages[:count])
        assert without_last_passage(longer) == answer_messages(prompts, Query("a?", "flag.png"), passages[: count - 1])
    assert without_last_passage(answer_messages(prompts, Query("a?"), [])) is None


@pytest.mark.parametrize("asked", ["Read the clue.\n\nWho is meant?", "Who?\n\n\nThe one of the clue."])
def test_leaving_out_evidence_keeps_a_question_of_several_paragraphs_whole(asked: str) -> None:
    passages = [Passage(str(n), f"text {n}\n \nsecond paragraph", 0.0, TEXT) for n in range(3)]
    prompts = load_prompts("trained")
    for count in (3, 2):
        shorter = without_last_passage(answer_messages(prompts, Query(asked), passages[:count]))
        assert shorter == answer_messages(prompts, Query(asked), passages[: count - 1])
        assert shorter is not None and text_of(shorter[-1]).endswith(asked)


class Rambling:
    """Fills what is left of its context of 2,048 words, and takes no longer prompt."""

    def __init__(self) -> None:
        self.lengths: list[int] = []

    async def chat(self, messages: Sequence[Message], *, sampling: Sampling) -> Reply:
        self.lengths.append(sum(len(text_of(message).split()) for message in messages))
        if self.lengths[-1] >= 2048:
            raise PromptTooLong("too long")
        return Reply("blah " * (2048 - self.lengths[-1]))


def test_a_reminder_that_does_not_fit_is_left_out() -> None:
    llm = Rambling()
    settings = Settings(load_prompts("trained"))
    trajectory = finished(make_method("r1-router", settings)(Question("q", "Who?"), llm, shelves()))
    plans, answers = llm.lengths[:6], llm.lengths[6:]
    assert plans[3] > 2048 and {*plans[:3], *plans[4:]} == {plans[0]} and len(answers) == 3
    assert trajectory.error is None and trajectory.usage.malformed == 8
