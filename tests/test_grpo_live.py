"""Live Step-GRPO: the policy's own walks to a step's place, what they are replaced by, and runs with them."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

torch = pytest.importorskip("torch", reason="training needs the extra: pip install 'r1-router[train]'")
pytest.importorskip("trl", reason="training needs the extra: pip install 'r1-router[train]'")

from r1_router import jsonl  # noqa: E402
from r1_router.cli import app  # noqa: E402
from r1_router.config import load_config  # noqa: E402
from r1_router.deployment import Deployment  # noqa: E402
from r1_router.errors import ConfigError, KnowledgeBaseDown  # noqa: E402
from r1_router.llm.scripted import ScriptedLLM  # noqa: E402
from r1_router.methods import Settings  # noqa: E402
from r1_router.prompts import load_prompts  # noqa: E402
from r1_router.replies import format_answer, format_plan  # noqa: E402
from r1_router.retrieval.remote import RemoteBase  # noqa: E402
from r1_router.training.grpo.live import Arrival, Fate, Loop, Place, Walks, key, places, walk  # noqa: E402
from r1_router.training.grpo.prompts import StepPrompt, read_prompts  # noqa: E402
from r1_router.training.grpo.rounds import Answers  # noqa: E402
from r1_router.training.grpo.run import CHECKPOINTS, train  # noqa: E402
from r1_router.tuning import live_loop  # noqa: E402
from r1_router.types import Message, Passage, Query, Question, Reply, Sampling, Source  # noqa: E402
from reward_samples import HashEncoder  # noqa: E402
from tiny_models import save_tiny_encoder  # noqa: E402
from tiny_policy import TOLD, save_policy_model, tiny_config, world, write_steps  # noqa: E402

ASKED = Question("q", "which country")
STOP = "<think>t</think><sub-question>none</sub-question><ret>none</ret>"


class Shelf:
    """Finds the same two passages for every query, unless it is down or broken; keeps what it was asked."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.asked: list[str] = []
        self._failure = failure

    async def search(self, query: Query, k: int) -> list[Passage]:
        self.asked.append(query.text)
        if self._failure is not None:
            raise self._failure
        return [Passage("1", "lima lies in peru", 1.0, TOLD), Passage("2", "chad is dry", 0.5, TOLD)][:k]


def loop(shelf: Shelf | None = None, **settings: Any) -> Loop:
    return Loop(Settings(load_prompts("trained"), max_steps=2, **settings), {TOLD: shelf or Shelf()}, [ASKED])


def place(kind: str, number: int = 0, asked: str = "where is lima") -> Place:
    return Place(StepPrompt("1-1", 1, 1, kind, (), (), "{}"), ASKED, number, asked)


def walked(place: Place, replies: Sequence[str], shelf: Shelf | None = None) -> Arrival | Fate:
    return asyncio.run(walk(place, ScriptedLLM(replies), loop(shelf)))


PLANNED = format_plan("t", "where is lima", TOLD.name)
WAY = [PLANNED, format_answer("t", "peru"), PLANNED, format_answer("t", "peru again")]


def said(arrival: Arrival | Fate) -> str:
    assert isinstance(arrival, Arrival)
    return str(arrival.messages[-1]["content"])


def test_each_place_is_reached_with_the_policys_own_questions_evidence_and_answers() -> None:
    assert said(walked(place("ret"), [])) == "Origin question: which country\n"
    shelf = Shelf()
    answering = walked(place("ans"), WAY, shelf)
    assert "ter-0: lima lies in peru" in said(answering) and said(answering).endswith("where is lima")
    assert isinstance(answering, Arrival) and answering.asked == "where is lima" and shelf.asked == ["where is lima"]
    second = said(walked(place("ret", 1), WAY))
    assert second == "Origin question: which country\nSub-question1: where is lima\nAnswer1: peru\n"
    assert said(walked(place("ans", 1), WAY)) == said(answering)
    assert "Answer2: peru again" in said(walked(place("final"), WAY))
    assert "Answer1" not in said(walked(place("final"), [STOP]))


def test_a_walk_that_does_not_come_to_its_place_says_why() -> None:
    assert walked(place("ans"), [STOP]) is Fate.STOPPED
    assert walked(place("ret", 1), ["no tags at all"] * 5) is Fate.STOPPED
    assert walked(place("ans"), WAY, Shelf(KnowledgeBaseDown("gone"))) is Fate.UNANSWERED


def answers_of(replies: Sequence[str]) -> Answers:
    """Every walker's n-th chat gets the n-th reply."""
    rounds = iter(replies)

    def answer(asked: Sequence[tuple[Sequence[Message], Sampling]]) -> list[Reply | Exception]:
        text = next(rounds)
        return [Reply(text)] * len(asked)

    return answer


def prompts_of(found: Sequence[Place], replies: Sequence[str], shelf: Shelf | None = None, most: int = 99) -> Any:
    """The policy's prompts for these places, in rounds of those replies, if they have at most so many words."""

    def fit(prompt: StepPrompt) -> StepPrompt | None:
        return prompt if len(str(prompt.messages[-1]["content"]).split()) <= most else None

    walks = Walks(loop(shelf), {str(n): one for n, one in enumerate(found)}, HashEncoder(), fit)
    own, fates = walks.prompts([str(n) for n in range(len(found))], answers_of(replies), Sampling())
    return {int(n): str(messages[-1]["content"]) for n, messages in own.items()}, dict(fates)


def test_the_teachers_prompt_stays_where_its_target_would_not_fit_the_policys() -> None:
    asked, other = place("ans"), place("ans", asked="who rules chad")
    own, fates = prompts_of([asked, other, place("ret", 1)], WAY)
    assert set(own) == {0, 2} and fates == {Fate.OWN: 2, Fate.OTHER_QUESTION: 1}
    own, fates = prompts_of([asked, place("ret")], WAY, most=8)
    assert set(own) == {1} and fates == {Fate.OWN: 1, Fate.TOO_LONG: 1}


def test_a_base_that_fails_costs_its_own_groups_only(caplog: pytest.LogCaptureFixture) -> None:
    own, fates = prompts_of([place("ans"), place("ret"), place("final")], WAY, Shelf(RuntimeError("torn")))
    assert set(own) == {1} and fates == {Fate.OWN: 1, Fate.UNANSWERED: 2}
    assert "text failed, a walk ends: RuntimeError: torn" in caplog.text


def test_places_are_read_off_the_rows_and_their_questions(tmp_path: Path) -> None:
    config = tiny_config(tmp_path)
    prompts = read_prompts(config.data, step_types=("ret", "ans", "final"), sees_images=False)
    found = places(config.data, prompts, loop())
    read = [found[key(prompt.messages)] for prompt in prompts[:4]]
    assert [(one.prompt.step_type, one.number, one.asked) for one in read] == [
        ("ret", 0, "who"), ("ans", 0, "who"), ("ret", 1, "none"), ("final", 0, "none"),
    ]  # fmt: skip
    assert all(one.question == ASKED for one in read)
    with pytest.raises(ConfigError, match="row 1"):
        places(config.data, prompts, dataclasses.replace(loop(), questions=[Question("q", "who else")]))


@pytest.mark.parametrize("settings", [{"swap_share": 0.5}, {"engine": "vllm"}])
def test_settings_that_do_not_go_with_it_are_refused(tmp_path: Path, settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"grpo\.live"):
        tiny_config(tmp_path, live=True, **settings)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Sums in one order, whatever the machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def test_a_run_walks_trains_and_is_the_same_again_after_a_stop(tmp_path: Path, one_thread: None) -> None:
    def trained(folder: Path, stops: bool) -> list[dict[str, Any]]:
        folder.mkdir()
        shelf = Shelf()
        live = {"live": True, "group": 4, "prompts": 4, "updates": 4}
        if stops:
            train(tiny_config(folder, **live, max_minutes=1e-9), world(loop=loop(shelf)))
            assert (folder / "out" / CHECKPOINTS).is_dir()
        train(tiny_config(folder, **live), world(loop=loop(shelf)))
        assert shelf.asked  # a random policy plans a search now and then
        lines = (folder / "out" / "log.jsonl").read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]

    rows = trained(tmp_path / "whole", stops=False)
    updates = [row for row in rows if "loss" in row]
    assert [row["step"] for row in updates] == [1, 2, 3, 4]
    for row in updates:
        assert sum(row[f"live/{fate.value}"] for fate in Fate) == pytest.approx(1.0)
    assert any(row["live/own"] for row in updates)
    again = [row for row in trained(tmp_path / "stopped", stops=True) if "loss" in row]
    assert [(row["step"], row["reward"], row["live/own"]) for row in again] == [
        (row["step"], row["reward"], row["live/own"]) for row in updates
    ]
    weights = [(tmp_path / name / "out" / "adapter_model.safetensors").read_bytes() for name in ("whole", "stopped")]
    assert weights[0] == weights[1]


def test_a_run_without_questions_to_walk_from_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="questions"):
        train(tiny_config(tmp_path, live=True), world())


GRPO: dict[str, Any] = {
    "model": "llm", "data": "steps.jsonl", "held_out": "steps.jsonl", "output": "adapter", "live": True,
    "group": 4, "prompts": 2, "updates": 2, "max_tokens": 3, "held_out_prompts": 4, "rank": 4, "evaluate_updates": 2,
}  # fmt: skip


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A config whose source is searched by vectors and by BM25, with the question that its step rows come of."""
    root = tmp_path_factory.mktemp("deployed")
    save_policy_model(root / "llm")
    save_tiny_encoder(root / "encoder")
    write_steps(root / "steps.jsonl")
    texts = ["lima lies in peru", "chad is dry", "oslo lies in norway"]
    jsonl.rewrite(root / "text.jsonl", [{"id": str(n), "title": "t", "text": text} for n, text in enumerate(texts)])
    jsonl.rewrite(root / "questions.jsonl", [{"id": "q", "question": "which country", "answers": ["peru"]}])
    source = {"name": TOLD.name, "tag": TOLD.tag, "purpose": TOLD.purpose, "encoder": "text", "lexical_weight": 0.5}
    config: dict[str, Any] = {
        "llm": {"name": "tiny", "model": "llm"},
        "encoders": {"text": {"kind": "sentence", "model": "encoder"}},
        "sources": [source | {"passages": "text.jsonl", "folder": "indexes/text"}],
        "benchmarks": {},
        "training": {
            "router-grpo": {"kind": "grpo", "questions": "questions.jsonl", "grpo": GRPO},
            "without": {"kind": "grpo", "grpo": GRPO | {"output": "other"}},
        },
    }
    (root / "config.yaml").write_text(yaml.safe_dump(config))
    assert command(root, "build").exit_code == 0
    return root


def command(root: Path, *words: str) -> Result:
    return CliRunner().invoke(app, [*words, "--config", str(root / "config.yaml")])


def test_the_command_walks_over_the_configs_bases_in_training_and_evaluation(deployed: Path, one_thread: None) -> None:
    result = command(deployed, "train", "step-grpo")
    assert result.exit_code == 0, result.output
    rows = list(jsonl.read(deployed / "adapter/log.jsonl"))
    assert [row["step"] for row in rows if row.get("live/own")] == [1, 2]
    assert [row["step"] for row in rows if row.get("eval_live/own")] == [0, 2]
    refused = command(deployed, "train", "step-grpo", "--adapter", "without")
    assert refused.exit_code == 1 and "questions" in refused.output


def test_evidence_is_retrieved_live_and_a_base_that_is_down_takes_no_other_with_it(deployed: Path) -> None:
    atlas = Source("atlas", "tar", "maps")
    deployment = Deployment(load_config(deployed / "config.yaml"))
    found = live_loop(deployment, deployed / "questions.jsonl")
    both = {**found.retrievers, atlas: RemoteBase("http://127.0.0.1:9", atlas, tries=1)}

    def answering(source: Source) -> Arrival | Fate:
        planned = [format_plan("t", "where is lima", source.name)]
        return asyncio.run(walk(place("ans"), ScriptedLLM(planned), dataclasses.replace(found, retrievers=both)))

    assert answering(atlas) is Fate.UNANSWERED
    assert said(answering(TOLD)).startswith("ter-0: ") and "lima lies in peru" in said(answering(TOLD))
