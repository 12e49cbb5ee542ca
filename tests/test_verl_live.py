"""Live Step-GRPO by verl: its agent loop's own base class and worker, over a scripted server and a real retriever."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from r1_router import jsonl
from r1_router.errors import ConfigError, DataError
from r1_router.replies import format_plan
from r1_router.training.grpo.live import LIVE, Fate
from r1_router.training.grpo.places import Place, places_by_id
from r1_router.training.grpo.prompts import StepPrompt, read_prompts
from r1_router.training.verl import LIVE_LOOP, LIVE_LOOPS, launch, with_live_loop, write_files
from r1_router.training.verl_rows import own_question, read_place, verl_row
from r1_router.types import TABLE, TEXT, Question
from verl_bench import ANSWER, LOOPS, PLAN, STOP, Bench, Server, Shelf, by_the_prompt
from verl_samples import CONFIG, trajectories
from verl_samples import picture as picture

needs_verl = pytest.mark.skipif(
    not all(map(find_spec, ("verl", "hydra", "fastapi"))),  # EasyR1's package is called verl too, and has no hydra
    reason="verl or the extra `serve` is not installed: pip install verl==0.9.1",
)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory, picture: Path) -> Path:
    path = tmp_path_factory.mktemp("rows") / "steps.jsonl"
    jsonl.rewrite(path, trajectories(picture))
    return path


def test_rows_hold_their_places(data: Path, picture: Path) -> None:
    prompts = read_prompts(data, step_types=(), sees_images=True)
    places = places_by_id(data, own_question)
    read = [read_place(verl_row(prompt, 0, 1, places[prompt.id])["extra_info"]) for prompt in prompts]
    assert [(place.kind, place.number, place.asked) for place in read[:3]] == [
        ("ret", 0, "who was it?"), ("ans", 0, "who was it?"), ("final", 0, "who was it?"),
    ]  # fmt: skip
    assert [place.question.text for place in read] == ["who?"] * 6
    assert [place.question.image for place in read] == [None] * 3 + [str(picture.resolve())] * 3
    with pytest.raises(DataError, match=r"steps\.live: true"):
        read_place(verl_row(prompts[0], 0, 1)["extra_info"])
    other = StepPrompt("1-2", 1, 2, "ans", ({"role": "user", "content": "ter-0: x\n\nQuestion: who?"},), (), '"x"')
    with pytest.raises(DataError, match="step 1-2"):
        own_question(other)


def test_live_names_the_agent_loop_from_the_config_or_the_command(tmp_path: Path) -> None:
    named = [
        f"actor_rollout_ref.rollout.agent.default_agent_loop={LIVE_LOOP}",
        f"actor_rollout_ref.rollout.agent.agent_loop_config_path={LOOPS}",
    ]
    assert with_live_loop(CONFIG, ["a=1"]) == ["a=1"]
    assert with_live_loop(CONFIG, ["steps.live=true"]) == [*named, "steps.live=true"]
    assert with_live_loop(CONFIG, ["steps.live=true", "steps.live=false"]) == ["steps.live=true", "steps.live=false"]
    told: list[str] = []
    assert launch(CONFIG, ["steps.live=true"], show=True, say=told.append) == 0 and named[0] in told[0]
    alone = tmp_path / "alone.yaml"
    alone.write_text("steps: {live: true}")
    with pytest.raises(ConfigError, match=LIVE_LOOPS):
        launch(alone, show=True)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    pytest.importorskip("sentence_transformers", reason="the encoder needs sentence-transformers")
    from tiny_models import save_tiny_encoder, save_tiny_vision_model

    folder = tmp_path_factory.mktemp("models")
    return str(save_tiny_vision_model(folder / "model")), str(save_tiny_encoder(folder / "encoder"))


@pytest.fixture(scope="module")
def retriever() -> Iterator[str]:
    """The URL of a real server."""
    import sys

    sys.path.insert(0, str(Path(__file__).parent / "retrieval"))
    from retrieval_server import LiveServer

    from r1_router.retrieval.service import Served, make_app

    live = LiveServer(make_app([Served(TEXT, Shelf())]))
    yield live.url
    live.stop()


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory, models: tuple[str, str], retriever: str) -> Bench:
    return Bench(tmp_path_factory.mktemp("bench"), models, retriever)


def place(kind: str, number: int = 0, asked: str = "who was it?", image: str | None = None) -> Place:
    return Place(Question("1-1", "who?", image=image), kind, number, asked)


@needs_verl
def test_the_loop_retrieves_walks_greedily_and_samples_one_reply(bench: Bench) -> None:
    output, server = bench.run(place("ans"), [PLAN, ANSWER])
    assert output.extra_fields[LIVE] == Fate.OWN
    assert "Origin question: who?" in server.prompts[0] and "ter-0: " in server.prompts[1]
    assert "a general, number" in server.prompts[1] and server.prompts[1].rstrip().endswith("assistant")
    assert [asked["temperature"] for asked in server.asked] == [0.0, 1.0]
    assert bench.tokenizer.decode(output.response_ids, skip_special_tokens=True) == ANSWER
    assert set(output.response_mask) == {1} and output.prompt_ids == bench.run(place("ans"), [PLAN, "x"])[0].prompt_ids
    _, server = bench.run(place("ret", 1), [PLAN, ANSWER, STOP])
    assert "Sub-question1: who was it?\nAnswer1: a general\n" in server.prompts[-1]


@needs_verl
@pytest.mark.parametrize(
    "at, replies, fate",
    [
        (place("ret", 1), [STOP], Fate.STOPPED),
        (place("ret", 1), ["no tags"] * 5, Fate.STOPPED),
        (place("ans", asked="zq zq zq"), [PLAN], Fate.OTHER_QUESTION),
    ],
)
def test_the_teachers_prompt_is_used_where_the_walk_does_not_come_to_the_place(
    bench: Bench, at: Place, replies: list[str], fate: Fate, monkeypatch: pytest.MonkeyPatch
) -> None:
    from r1_router.training.grpo import live

    monkeypatch.setattr(live, "SAME_QUESTION", 0.9999)  # a random encoder finds all texts alike
    output, server = bench.run(at, [*replies, ANSWER])
    assert output.extra_fields[LIVE] == fate and "the teacher's" in server.prompts[-1]


@needs_verl
def test_a_base_that_fails_and_a_prompt_that_is_too_long_cost_their_own_groups(
    bench: Bench, tmp_path: Path, models: tuple[str, str], retriever: str
) -> None:
    """The server has no tables."""
    output, server = bench.run(place("ans"), [format_plan("t", "who was it?", TABLE.name), ANSWER])
    assert output.extra_fields[LIVE] == Fate.UNANSWERED and "the teacher's" in server.prompts[-1]
    assert bench.run(place("ans"), [PLAN, ANSWER])[0].extra_fields[LIVE] == Fate.OWN
    short = Bench(tmp_path, models, retriever, most=120)
    for at in (place("ret"), place("ret", 1)):  # at the place itself, and on the way to it
        output, server = short.run(at, [ANSWER])
        assert output.extra_fields[LIVE] == Fate.TOO_LONG and len(server.prompts) == 1


@needs_verl
def test_a_picture_is_walked_with_and_shown(bench: Bench, picture: Path, data: Path) -> None:
    output, server = bench.run(place("ret", 1, image=str(picture)), [PLAN, ANSWER, STOP])
    assert output.extra_fields[LIVE] == Fate.OWN and len(output.multi_modal_data["images"]) == 1
    assert [len(asked["image_data"]) for asked in server.asked] == [1, 1, 1]


@needs_verl
def test_verls_own_worker_walks_from_its_own_rows(
    tmp_path: Path, models: tuple[str, str], retriever: str, data: Path
) -> None:
    """The files that `--engine verl` writes, through its data set, to a worker's batch of prompts and replies."""
    from verl import DataProto
    from verl.experimental.agent_loop.agent_loop import AgentLoopWorker
    from verl.utils.dataset.rl_dataset import collate_fn, get_dataset_class

    files = {"data.train_files": tmp_path / "t.parquet", "data.val_files": tmp_path / "v.parquet"}
    bench = Bench(tmp_path, models, retriever, more=files | {"steps.train": data, "steps.valid": data})
    write_files(bench.config)
    rows = get_dataset_class(bench.config.data)(
        str(files["data.train_files"]), bench.tokenizer, bench.config.data, bench.processor
    )
    batch = DataProto.from_single_dict(collate_fn([rows[index] for index in range(len(rows))]))
    server = Server(bench.tokenizer, by_the_prompt)

    async def made() -> Any:
        return await AgentLoopWorker(bench.config, server).generate_sequences(batch)

    output = asyncio.run(made())
    assert output.non_tensor_batch[LIVE].tolist() == [Fate.OWN.value] * 6
    prompts = [bench.tokenizer.decode(ids, skip_special_tokens=True) for ids in output.batch["prompts"]]
    assert ["number 0" in prompt for prompt in prompts] == [False, True, False] * 2
    assert all("Sub-question1: who was it?" in prompts[index] for index in (2, 5))
    assert len(server.asked) == 2 * (1 + 2 + 4)  # each walk's chats and its reply


def test_the_reward_counts_the_fates(models: tuple[str, str]) -> None:
    from r1_router.training.verl_reward import compute_score

    def scores(**extra: str) -> dict[str, float]:
        told = {"step_type": "ans", **extra}
        return asyncio.run(compute_score("", ANSWER, json.dumps("a general"), told, encoder=models[1]))

    live = scores(live=Fate.STOPPED.value)
    assert live["live_stopped"] == 1.0 and live["live_own"] == 0.0 and live["score"] == scores()["score"] == 1.0
    assert not any(name.startswith(LIVE) for name in scores())
