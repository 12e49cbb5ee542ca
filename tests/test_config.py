"""Configs: the one that comes with the project, and what is said about a wrong one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from r1_router.config import DEFAULT_CONFIG, load_config
from r1_router.deployment import Deployment
from r1_router.errors import ConfigError, DataError

ROOT = Path(__file__).parents[1]
SMALL: dict[str, Any] = {
    "llm": {"name": "tiny", "model": "models/tiny"},
    "encoders": {"text": {"kind": "sentence", "model": "m"}},
    "sources": [
        {
            "name": "text retriever",
            "tag": "ter",
            "purpose": "p",
            "passages": "a.jsonl",
            "folder": "kb",
            "encoder": "text",
        }
    ],
    "benchmarks": {"b": "b.jsonl"},
}


def load(tmp_path: Path, change: dict[str, Any]) -> Any:
    path = tmp_path / "c.yaml"
    path.write_text(yaml.safe_dump(SMALL | change))
    return load_config(path)


def test_the_projects_own_config() -> None:
    config = load_config(ROOT / DEFAULT_CONFIG)
    assert config.root == ROOT
    assert [source.tag for source in config.sources] == ["ter", "tir", "tar"]
    assert all(path.is_file() for path in config.benchmarks.values())
    assert config.variant("r1-router").adapter == ROOT / "checkpoints/factbook-router"
    assert config.variant("direct").adapter is None
    assert {config.variant(name).method for name in config.demo} >= {"r1-router", "direct", "cot", "rag"}


def test_paths_are_relative_to_the_config_outside_configs(tmp_path: Path) -> None:
    config = load(tmp_path, {})
    assert config.sources[0].folder == tmp_path / "kb" and config.results_dir == tmp_path / "results"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"retreived": 3}, "did you mean 'retrieved'"),
        ({"llm": {"name": "x", "modell": "y"}}, r"c\.yaml\.llm: there is no key 'modell'; did you mean 'model'"),
        ({"llm": {"name": "x"}}, r"c\.yaml\.llm: the key 'model' is missing"),
        ({"shown": "five"}, r"c\.yaml\.shown: expected int, found 'five'"),
        ({"shown": True}, "expected int, found True"),
        ({"sources": 3}, r"c\.yaml\.sources: expected tuple, found 3"),
        ({"sources": [7]}, r"c\.yaml\.sources\[0\]: expected keys and values, found 7"),
        ({"prompts": "short"}, "'short' is not known; there are guided, trained"),
        ({"llm": {"name": "x", "model": "y", "engine": "vlm"}}, "there are transformers, openai"),
        ({"llm": {"name": "x", "model": "y", "engine": "openai"}}, "base_url"),
        ({"encoders": {"text": {"kind": "fused", "model": "m"}}}, "image_model"),
        ({"encoders": {"other": {"kind": "sentence", "model": "m"}}}, "'text' is not known; there are other"),
        ({"sources": SMALL["sources"] * 2}, "two sources have the same tag"),
        (
            {"variants": {"v": {"method": "ragg", "prompts": "guided"}}},
            r"c\.yaml\.variants\.v\.method: 'ragg' is not known",
        ),
        ({"retrieved": 0}, r"c\.yaml\.retrieved: expected 1 or more, found 0"),
        ({"concurrency": 0}, r"c\.yaml\.concurrency: expected 1 or more"),
        ({"llm": {"name": "x", "model": "y", "batch": 0}}, r"c\.yaml\.llm\.batch: expected 1 or more"),
        ({"sampling": {"max_tokens": -1}}, r"c\.yaml\.sampling\.max_tokens: expected 1 or more, found -1"),
        ({"sources": [SMALL["sources"][0] | {"lexical_weight": 1.5}]}, r"lexical_weight: expected a share from 0 to 1"),
        ({"sampling": {"temperature": "warm"}}, r"sampling\.temperature: expected float, found 'warm'"),
        ({"demo": ["r1-router", "oracle"]}, r"c\.yaml\.demo: 'oracle' is not known"),
    ],
)
def test_a_wrong_config_names_the_key(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load(tmp_path, change)


@pytest.mark.parametrize("text", ["1e-3", "1.e-3", "+10E-4", "1.0e-3"])
def test_a_number_may_be_written_with_an_exponent_alone(tmp_path: Path, text: str) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(yaml.safe_dump(SMALL) + f"sampling: {{temperature: {text}}}\n")
    assert load_config(path).sampling.temperature == 0.001


def test_missing_and_broken_files(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--config: no file"):
        load_config(tmp_path / "none.yaml")
    (tmp_path / "bad.yaml").write_text("a: [")
    with pytest.raises(ConfigError, match="not YAML"):
        load_config(tmp_path / "bad.yaml")


DOUBLES = {
    "at the top": ("shown: 3\nretrieved: 10\nshown: 5\n", r"c\.yaml, line 3: the key 'shown' stands in line 1 already"),
    "in a list": ("sources:\n  - {tag: a, name: n, tag: b}\n", r"line 2: the key 'tag' stands in line 2 already"),
    "under an anchor": ("a: &x\n  k: 1\n  k: 2\nb: *x\n", r"line 3: the key 'k' stands in line 2"),
}


@pytest.mark.parametrize("text, message", DOUBLES.values(), ids=DOUBLES.keys())
def test_a_key_that_stands_twice_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "c.yaml").write_text(text)
    with pytest.raises(ConfigError, match=message):
        load_config(tmp_path / "c.yaml")


def test_a_merged_key_may_be_changed(tmp_path: Path) -> None:
    merged = "training:\n  a: {kind: steps, sft: &s {model: m, data: d, output: o}}\n"
    merged += "  b: {kind: steps, sft: {<<: *s, output: p}}\n"
    (tmp_path / "c.yaml").write_text(yaml.safe_dump(SMALL) + merged)
    sft = load_config(tmp_path / "c.yaml").training["b"].sft
    assert sft is not None and (sft["output"], sft["model"]) == ("p", "m")


def test_images_are_findable_and_stay_in_their_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = '{"id": "1", "question": "a?", "answers": ["x"], "image": "img/f.png", "hops": []}\n'
    (tmp_path / "b.jsonl").write_text(rows + '{"id": "2", "question": "b?", "answers": ["y"], "image": null}\n')
    monkeypatch.chdir(tmp_path)
    deployment = Deployment(load(tmp_path, {}))
    first, second = deployment.questions("b")
    assert (first.image, first.benchmark, dict(first.extra)) == ("img/f.png", "b", {"hops": []})
    assert second.image is None
    assert len(deployment.questions("b", 1)) == 1
    assert {deployment.questions("b", 1, sample_seed=seed)[0].id for seed in range(9)} == {"1", "2"}
    with pytest.raises(ConfigError, match="there are b"):
        deployment.questions("c")
    (tmp_path / "b.jsonl").write_text(rows.replace("img", "../img"))
    with pytest.raises(DataError, match="outside"):
        deployment.questions("b")
