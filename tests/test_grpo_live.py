"""Live Step-GRPO: the policy's own walks to a step's place, what they are replaced by, and runs with them."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="training needs the extra: pip install 'r1-router[train]'")
pytest.importorskip("trl", reason="training needs the extra: pip install 'r1-router[train]'")

from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: E402

from one_thread import one_thread as one_thread  # noqa: E402
from r1_router.errors import ConfigError, KnowledgeBaseDown  # noqa: E402
from r1_router.llm.scripted import ScriptedLLM  # noqa: E402
from r1_router.methods import Settings  # noqa: E402
from r1_router.prompts import load_prompts  # noqa: E402
from r1_router.replies import format_answer, format_plan  # noqa: E402
from r1_router.training.grpo.live import Arrival, Fate, LiveRollouts, Walks, walk  # noqa: E402
from r1_router.training.grpo.places import Loop, Place, key, places  # noqa: E402
from r1_router.training.grpo.prompts import read_prompts  # noqa: E402
from r1_router.training.grpo.rollouts import Rollouts  # noqa: E402
from r1_router.training.grpo.rounds import Answers  # noqa: E402
from r1_router.training.grpo.run import CHECKPOINTS, train  # noqa: E402
from r1_router.types import Message, Passage, Query, Question, Reply, Sampling  # noqa: E402
from reward_samples import HashEncoder  # noqa: E402
from tiny_policy import TOLD, save_policy_model, tiny_config, world  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")

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
    return Place(ASKED, kind, number, asked)


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
    later = [*WAY[:2], format_plan("t", "who rules chad", TOLD.name)]
    assert said(walked(place("ans", 1), later)).endswith("who rules chad")
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

    def fit(messages: Sequence[Message]) -> Sequence[Message] | None:
        return messages if len(str(messages[-1]["content"]).split()) <= most else None

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
    assert [(one.kind, one.number, one.asked) for one in read] == [
        ("ret", 0, "who"), ("ans", 0, "who"), ("ret", 1, "none"), ("final", 0, "none"),
    ]  # fmt: skip
    assert all(one.question == ASKED for one in read)
    with pytest.raises(ConfigError, match="row 1"):
        places(config.data, prompts, dataclasses.replace(loop(), questions=[Question("q", "who else")]))


def test_a_group_replies_to_the_policys_own_prompt_and_the_log_tells_the_shares(tmp_path: Path) -> None:
    model = save_policy_model(tmp_path)
    tokenizer, policy = AutoTokenizer.from_pretrained(model), AutoModelForCausalLM.from_pretrained(model)
    teachers = [[{"role": "user", "content": text}] for text in ("plan", "plan plan")]
    kinds = {key(teachers[0]): place("ret"), key(teachers[1]): place("ret", 9)}  # the second is past the last step
    walks = Walks(loop(), kinds, HashEncoder(), lambda messages: messages)
    shares: dict[str, float] = {}
    trainer = SimpleNamespace(
        state=SimpleNamespace(global_step=1),
        step_config=SimpleNamespace(temperature=1.0, top_k=0, max_tokens=3, seed=0, rollout_batch=8),
        model=policy,
        accelerator=SimpleNamespace(unwrap_model=lambda wrapped: wrapped),
        _log_metric=shares.__setitem__,
    )
    rollouts = LiveRollouts(Rollouts(model, tokenizer, torch.float32, "cpu"), walks)
    asked = [teachers[0], teachers[0], teachers[1], teachers[1]]
    prompts = [tokenizer.decode(ids) for ids in rollouts(asked, trainer)["prompt_ids"]]
    assert prompts[0] == prompts[1] and "question: which country" in prompts[0]
    assert prompts[2] == prompts[3] and "user plan plan" in prompts[2]
    assert shares == {f"live/{fate}": {Fate.OWN: 0.5, Fate.STOPPED: 0.5}.get(fate, 0.0) for fate in Fate}


@pytest.mark.parametrize("settings", [{"swap_share": 0.5}, {"engine": "vllm"}])
def test_settings_that_do_not_go_with_it_are_refused(tmp_path: Path, settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"grpo\.live"):
        tiny_config(tmp_path, live=True, **settings)


def test_a_run_walks_trains_and_is_the_same_again_after_a_stop(tmp_path: Path) -> None:
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
