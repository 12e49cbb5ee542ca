"""The vision engine on a tiny random Qwen2.5-VL: images count, batches change nothing, seeds hold, marks never come."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from r1_router.errors import EngineError, PromptTooLong
from r1_router.llm.row_sampling import RowSampling
from r1_router.llm.vision import VisionLLM, sees_images
from r1_router.types import Message, Reply, Sampling
from tiny_models import save_tiny_model, save_tiny_vision_model

GREEDY = Sampling(max_tokens=12)
SAMPLED = Sampling(temperature=1.0, top_k=20, max_tokens=12)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_vision_model(tmp_path_factory.mktemp("vision"))


@pytest.fixture(scope="module")
def llm(folder: Path) -> VisionLLM:
    return VisionLLM(folder)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("pictures")
    paths = []
    for number, (color, size) in enumerate([("red", (60, 60)), ("blue", (60, 90)), ("green", (120, 60))]):
        Image.new("RGB", size, color).save(folder / f"{number}.png")
        paths.append(str(folder / f"{number}.png"))
    return paths


def about(text: str, image: str | None = None) -> list[Message]:
    if image is None:
        return [{"role": "user", "content": text}]
    return [{"role": "user", "content": [{"type": "text", "text": text}, {"type": "image", "image": image}]}]


def ask(llm: VisionLLM, chats: Sequence[list[Message]], samplings: Sequence[Sampling]) -> list[Any]:
    async def go() -> list[Any]:
        waiting = [llm.chat(chat, sampling=sampling) for chat, sampling in zip(chats, samplings, strict=True)]
        return await asyncio.gather(*waiting, return_exceptions=True)

    return asyncio.run(go())


def test_the_picture_is_read(llm: VisionLLM, pictures: list[str]) -> None:
    plain, red, blue = ask(llm, [about("what?"), *(about("what?", path) for path in pictures[:2])], [GREEDY] * 3)
    assert isinstance(red, Reply)
    assert red.prompt_tokens > plain.prompt_tokens and blue.prompt_tokens > red.prompt_tokens
    assert len({plain.text, red.text, blue.text}) > 1


def test_a_batch_of_texts_and_pictures_gives_what_each_gives_alone(llm: VisionLLM, pictures: list[str]) -> None:
    chats = [about("one"), about("two, longer", pictures[0]), about("three", pictures[2]), about("the fourth of them")]
    samplings = [GREEDY, Sampling(1.0, 20, 12, 5), Sampling(0.7, 5, 9, 6), Sampling(1.0, 20, 12, 7)]
    together = ask(llm, chats, samplings)
    alone = [ask(llm, [chat], [sampling])[0] for chat, sampling in zip(chats, samplings, strict=True)]
    assert together == alone
    assert all(
        reply.completion_tokens <= sampling.max_tokens for reply, sampling in zip(together, samplings, strict=True)
    )


def test_seeds_give_the_same_reply_again_and_others_another(llm: VisionLLM, pictures: list[str]) -> None:
    chat = about("say", pictures[1])
    seeds = [Sampling(1.0, 20, 12, seed) for seed in (1, 1, 2, 3)]
    first, same, *others = (reply.text for reply in ask(llm, [chat] * 4, seeds))
    assert first == same and any(other != first for other in others)


def test_special_tokens_are_never_drawn(llm: VisionLLM) -> None:
    replies = ask(llm, [about("x")] * 20, [Sampling(50.0, 0, 40, seed) for seed in range(20)])
    assert all("<|" not in reply.text for reply in replies)
    assert max(reply.completion_tokens for reply in replies) > 12


def test_a_prompt_too_long_counts_its_picture(folder: Path, pictures: list[str]) -> None:
    llm = VisionLLM(folder, context=60)
    fits, long = ask(llm, [about("x"), about("x", pictures[2])], [GREEDY] * 2)
    assert isinstance(fits, Reply) and isinstance(long, PromptTooLong | Reply)
    too_long = ask(llm, [about("x" * 80)], [GREEDY])[0]
    assert isinstance(too_long, PromptTooLong) and "context holds 60" in str(too_long)


def test_a_long_prompt_leaves_the_others_of_its_batch_their_room(folder: Path) -> None:
    llm = VisionLLM(folder, context=60)
    chats = [about("x"), about("x" * 40)]
    samplings = [Sampling(50.0, 0, 30, seed) for seed in (1, 2)]
    together = ask(llm, chats, samplings)
    assert together == [ask(llm, [chat], [sampling])[0] for chat, sampling in zip(chats, samplings, strict=True)]
    assert together[0].completion_tokens > 60 - together[1].prompt_tokens


def test_a_picture_that_cannot_be_read_is_an_error_of_its_question(llm: VisionLLM, tmp_path: Path) -> None:
    (tmp_path / "torn.png").write_bytes(b"no picture")
    error, reply = ask(llm, [about("x", str(tmp_path / "torn.png")), about("x")], [GREEDY] * 2)
    assert isinstance(error, EngineError) and isinstance(reply, Reply)


def test_models_are_told_apart(folder: Path, tmp_path: Path) -> None:
    assert sees_images(folder) and not sees_images(save_tiny_model(tmp_path)) and not sees_images(tmp_path / "none")


def test_row_sampling_draws_from_the_softmax() -> None:
    logits = torch.tensor([2.0, 1.0, 0.0, -1.0, 9.0])
    rows = [Sampling(1.0, 3, 1, seed) for seed in range(4000)]
    drawn = RowSampling(rows, [4], "cpu")(torch.empty(0, dtype=torch.long), logits.repeat(4000, 1)).argmax(dim=1)
    shares = torch.bincount(drawn, minlength=5) / 4000
    expected = torch.softmax(logits[:3], dim=0)
    assert torch.allclose(shares[:3], expected, atol=0.03) and shares[3:].sum() == 0
