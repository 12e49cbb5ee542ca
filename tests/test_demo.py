"""The demo's own path, end to end: the real small models, the trained adapter, ten test questions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from r1_router import commands
from r1_router.config import DEFAULT_CONFIG, load_config
from r1_router.embedded import EMBEDDED, is_made

ROOT = Path(__file__).parents[1]


def test_ten_questions(tmp_path: Path) -> None:
    config = replace(load_config(ROOT / DEFAULT_CONFIG), results_dir=tmp_path)
    adapter = config.variant("r1-router").adapter
    if adapter is None or not (adapter / "adapter_model.safetensors").is_file():
        pytest.skip(f"no adapter in {adapter}; `r1-router train sft` makes one")
    if not all(is_made(config.models_dir, model) for model in EMBEDDED):
        pytest.skip("the embedded models are not fetched; `r1-router models` does it")
    (first,) = commands.demo(config, "factbook", ["r1-router"], 10, 0)
    assert (first.summary["n"], first.summary["errors"]) == (10, 0)
    assert first.summary["f1_recall"] >= 0.4 and first.summary["routing_accuracy"] >= 0.7
    assert first.summary["seconds_per_question"] > 0
    assert all(trajectory.usage.malformed <= 2 for trajectory in first.trajectories)
    (again,) = commands.demo(config, "factbook", ["r1-router"], 10, 0)
    assert again.trajectories == first.trajectories
    assert (tmp_path / "factbook" / config.llm.name / "r1-router" / "summary.json").is_file()
