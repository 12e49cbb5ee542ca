"""What a YAML file may say, checked; `r1_router.deployment` makes engines and knowledge bases of it.

Paths are relative to the project's root: the folder above `configs/`, or the config's own folder elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from r1_router.elsewhere import check_kept
from r1_router.errors import ConfigError
from r1_router.methods import METHODS
from r1_router.prompts import prompt_folder, prompt_set_names
from r1_router.retrieval.instructions import MODALITIES
from r1_router.schema import read_dataclass
from r1_router.sections import EncoderConfig, LLMConfig, SourceConfig, SynthesisConfig, TrainingConfig, VariantConfig
from r1_router.types import MAX_STEPS, Sampling

DEFAULT_CONFIG = Path("configs/factbook.yaml")
ENGINES = ("transformers", "openai", "vllm")
ENCODERS = ("sentence", "fused", "clip", "table")
FUSIONS = ("weights", "rrf")
STEP_KINDS = ("router", "rag", "steps", "grpo", "retriever")


@dataclass(frozen=True, slots=True)
class Config:
    """One deployment."""

    root: Path
    llm: LLMConfig
    encoders: dict[str, EncoderConfig]
    sources: tuple[SourceConfig, ...]
    benchmarks: dict[str, Path]
    prompts: str = "trained"
    lower_case: bool = False
    forget_on_stop: bool = False
    sampling: Sampling = field(default_factory=Sampling)
    retrieved: int = 10
    shown: int = 5
    max_steps: int = MAX_STEPS
    concurrency: int = 64
    models_dir: Path = Path("models")
    results_dir: Path = Path("results")
    variants: dict[str, VariantConfig] = field(default_factory=dict)
    demo: tuple[str, ...] = ()
    training: dict[str, TrainingConfig] = field(default_factory=dict)
    synthesis: SynthesisConfig | None = None

    def variant(self, name: str) -> VariantConfig:
        """The variant of that name, or the plain method with the config's own adapter and prompts."""
        if name in self.variants:
            return self.variants[name]
        if name not in METHODS:
            known = ", ".join(dict.fromkeys([*METHODS, *self.variants]))
            raise ConfigError(f"--method: no method is named {name!r}; there are {known}.")
        return VariantConfig(name, self.prompts, self.llm.adapter, self.lower_case)


def load_config(path: Path) -> Config:
    """Read and check a config; raises ConfigError naming the key and, for a misspelt one, the key that is near."""
    import yaml

    if not path.is_file():
        raise ConfigError(f"--config: no file {path}; run in the project's folder, or give the path of a config.")
    try:
        text = path.read_text(encoding="utf-8")
        _refuse_doubles(yaml.compose(text, Loader=yaml.SafeLoader), path)
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: not YAML: {error}") from error
    folder = path.resolve().parent
    root = folder.parent if folder.name == "configs" else folder
    if isinstance(value, dict):
        value = {"models_dir": "models", "results_dir": "results", **value, "root": "."}
    config = read_dataclass(Config, value, path.name, root)
    _check(config, path.name)
    return config


def _refuse_doubles(root: Any, path: Path) -> None:
    """Raises ConfigError where a mapping has a key twice, of which YAML's reader would drop the first unsaid."""
    nodes, seen = [root], set()  # an anchor's node is met again at each of its aliases
    while nodes:
        node = nodes.pop()
        if id(node) in seen or not isinstance(getattr(node, "value", None), list):
            continue
        seen.add(id(node))
        if node.id == "sequence":
            nodes += node.value
            continue
        lines: dict[str, int] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if str(key.value) in lines:
                before = lines[str(key.value)]
                raise ConfigError(f"{path}, line {line}: the key {key.value!r} stands in line {before} already.")
            lines[str(key.value)] = line
            nodes.append(value)


def with_constrained(config: Config) -> Config:
    """The config with replies held to their form; raises ConfigError where the engine cannot."""
    if config.llm.engine == "transformers":
        raise ConfigError("constrained: the transformers engine cannot hold replies to a form; use vllm or openai.")
    return replace(config, llm=replace(config.llm, constrained=True))


def _check(config: Config, where: str) -> None:
    """What types cannot say: names that must be known, and keys that only make sense together."""
    _require_prompts(f"{where}.prompts", config.prompts, config.root)
    _require_known(f"{where}.llm.engine", config.llm.engine, ENGINES)
    if config.llm.engine == "openai" and not config.llm.base_url:
        raise ConfigError(f"{where}.llm.base_url: the openai engine needs a URL such as http://host:8000/v1.")
    if config.llm.constrained:
        with_constrained(config)
    _require_counts(where, config)
    for name, encoder in config.encoders.items():
        _require_known(f"{where}.encoders.{name}.kind", encoder.kind, ENCODERS)
        if encoder.kind == "fused" and encoder.image_model is None:
            raise ConfigError(f"{where}.encoders.{name}.image_model: a fused encoder needs an image model's folder.")
        for side in ("query", "candidate"):
            _require_known(f"{where}.encoders.{name}.clip.{side}", getattr(encoder.clip, side), MODALITIES)
    for source in config.sources:
        check_kept(f"{where}.sources.{source.name}", source)
        _require_known(f"{where}.sources.{source.name}.fusion", source.fusion, FUSIONS)
        if source.url is not None:
            continue
        _require_known(f"{where}.sources.{source.name}.encoder", source.encoder, config.encoders)
        _require_scale(f"{where}.sources.{source.name}", source, config.encoders[source.encoder])
    for name, variant in config.variants.items():
        _require_prompts(f"{where}.variants.{name}.prompts", variant.prompts, config.root)
        _require_known(f"{where}.variants.{name}.method", variant.method, METHODS)
    for name, section in config.training.items():
        _require_known(f"{where}.training.{name}.kind", section.kind, STEP_KINDS)
        _require_parts(f"{where}.training.{name}", section)
    for name in config.demo:
        _require_known(f"{where}.demo", name, [*config.variants, *METHODS])
    for key in ("tag", "name"):
        if len({getattr(source, key) for source in config.sources}) < len(config.sources):
            raise ConfigError(f"{where}.sources: two sources have the same {key}; they could not be told apart.")


def _require_counts(where: str, config: Config) -> None:
    """With less than one of these nothing would be asked, shown or answered, and nothing would say so."""
    counts = {key: getattr(config, key) for key in ("retrieved", "shown", "max_steps", "concurrency")}
    counts |= {f"llm.{key}": getattr(config.llm, key) for key in ("batch", "servers")}
    counts["sampling.max_tokens"] = config.sampling.max_tokens
    for key, found in counts.items():
        if found < 1:
            raise ConfigError(f"{where}.{key}: expected 1 or more, found {found}.")


def _require_prompts(where: str, name: str, root: Path) -> None:
    if prompt_folder(str(root / name)) is None:
        _require_known(where, name, prompt_set_names())


def _require_parts(where: str, section: TrainingConfig) -> None:
    parts = {"steps": ("sft",), "grpo": ("grpo",), "retriever": ("questions", "retriever")}
    needed = parts.get(section.kind, ("questions", "sft"))
    for key in needed:
        if not getattr(section, key):
            raise ConfigError(f"{where}: the kind {section.kind} needs {key!r}; configs/factbook.yaml shows it.")


def _require_scale(where: str, source: SourceConfig, encoder: EncoderConfig) -> None:
    """BM25's share makes sense beside cosines only, and by weights only."""
    if not 0 <= source.lexical_weight <= 1:
        raise ConfigError(f"{where}.lexical_weight: expected a share from 0 to 1, found {source.lexical_weight}.")
    if source.lexical_weight and source.fusion == "rrf":
        raise ConfigError(f"{where}.lexical_weight: fusion rrf weighs both alike; leave it out.")
    if source.lexical_weight and source.gpu and "IVF" in source.index:
        raise ConfigError(f"{where}.lexical_weight: vectors of an IVF cannot be read back on a GPU; take fusion: rrf.")
    if source.lexical_weight and encoder.kind == "table":
        raise ConfigError(f"{where}.lexical_weight: a table encoder's scores are no cosines; take fusion: rrf.")


def _require_known(where: str, name: str, known: Any) -> None:
    if name not in known:
        raise ConfigError(f"{where}: {name!r} is not known; there are {', '.join(known)}.")
