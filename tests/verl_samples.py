"""Replies, rows and rewards that the tests of Step-GRPO by verl and EasyR1 share, and fixtures of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from r1_router.replies import format_answer, format_plan
from r1_router.rewards import Sample, step_rewards
from r1_router.types import TABLE, TEXT

CONFIG = Path(__file__).parents[1] / "configs" / "verl_stepgrpo.yaml"
ROUTE = {"query": "who was it?", "retriever": [TEXT.name]}
REPLIES = [
    (format_plan("t", "who was it?", TEXT.name), ROUTE, "ret"),
    (format_plan("t", "who is he?", TABLE.name), ROUTE, "ret"),
    ("no tags", ROUTE, "ret"),
    (format_answer("t", "jan zizka"), "jan zizka", "ans"),
    (format_answer("t", "someone else"), ["jan zizka", "zizka"], "final"),
]


def trajectories(picture: Path) -> list[dict[str, Any]]:
    """Nested rows: one of text only, and one with a picture; the evidence of both is too long for a short prompt."""
    from PIL import Image

    Image.new("RGB", (120, 90), "red").save(picture)
    passages = "".join(f"ter-{n}: {'word ' * 40}\n" for n in range(3))
    steps: list[dict[str, Any]] = [
        {"step_type": "ret", "problem": "Origin question: who?\n", "system": "route it", "answer": ROUTE},
        {"step_type": "ans", "problem": f"{passages}\n\nQuestion: who?", "system": "answer it", "answer": "jan zizka"},
        {"step_type": "ans", "problem": "Origin question: who?\n", "system": "end it", "answer": ["jan zizka"]},
    ]
    shown = [{**step, "problem": step["problem"] + "<image>"} for step in steps]
    return [{"images": [], "steps": steps}, {"images": [str(picture)], "steps": shown}]


def expected(encoder: str) -> list[float]:
    """The rewards by the library itself."""
    from r1_router.retrieval.encoders import SentenceEncoder

    samples = [Sample(reply, target, kind) for reply, target, kind in REPLIES]
    return [reward.total for reward in step_rewards(samples, encoder=SentenceEncoder(encoder, device="cpu"))]


@pytest.fixture(scope="module")
def picture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pictures") / "flag.png"


@pytest.fixture(scope="module")
def rows(picture: Path) -> list[dict[str, Any]]:
    return trajectories(picture)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    pytest.importorskip("sentence_transformers", reason="the encoder needs sentence-transformers")
    from tiny_models import save_tiny_encoder

    return str(save_tiny_encoder(tmp_path_factory.mktemp("encoder")))
