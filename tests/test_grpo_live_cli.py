"""`r1-router train step-grpo` with `live: true` over real bases: FAISS with BM25, and a server that is gone."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterator
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
from r1_router.llm.scripted import ScriptedLLM  # noqa: E402
from r1_router.replies import format_plan  # noqa: E402
from r1_router.retrieval.remote import RemoteBase  # noqa: E402
from r1_router.training.grpo.live import Arrival, Fate, walk  # noqa: E402
from r1_router.training.grpo.places import Place  # noqa: E402
from r1_router.tuning import live_loop  # noqa: E402
from r1_router.types import Question, Source  # noqa: E402
from tiny_models import save_tiny_encoder  # noqa: E402
from tiny_policy import TOLD, save_policy_model, write_steps  # noqa: E402

GRPO: dict[str, Any] = {
    "model": "llm", "data": "steps.jsonl", "held_out": "steps.jsonl", "output": "adapter", "live": True,
    "group": 4, "prompts": 2, "updates": 2, "max_tokens": 3, "held_out_prompts": 4, "rank": 4, "evaluate_updates": 2,
}  # fmt: skip


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A config whose source is searched by vectors and by BM25, with the question that its step rows come of."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
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
    yield root
    torch.set_num_threads(threads)


def command(root: Path, *words: str) -> Result:
    return CliRunner().invoke(app, [*words, "--config", str(root / "config.yaml")])


def test_the_command_walks_over_the_configs_bases_in_training_and_evaluation(deployed: Path) -> None:
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
    place = Place(Question("q", "which country"), "ans", 0, "where is lima")
    both = {**found.retrievers, atlas: RemoteBase("http://127.0.0.1:9", atlas, tries=1)}

    def answering(source: Source) -> Arrival | Fate:
        planned = [format_plan("t", "where is lima", source.name)]
        return asyncio.run(walk(place, ScriptedLLM(planned), dataclasses.replace(found, retrievers=both)))

    assert answering(atlas) is Fate.UNANSWERED
    arrival = answering(TOLD)
    assert isinstance(arrival, Arrival) and "lima lies in peru" in arrival.messages[-1]["content"]
