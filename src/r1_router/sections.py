"""The sections of a YAML file: one dataclass each, every key with its default."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class LLMConfig:
    """The language model; `name` stands in result paths, `model` is a folder or a hub or server name.

    `dtype`, `batch`, `threads` are the transformers engine's, `base_url`, one or several, and `api_key_env` the openai
    engine's, `servers` and `server_args` the vllm engine's. `constrained` holds replies to their form, where the engine
    is a vLLM server.
    """

    name: str
    model: str
    engine: str = "transformers"
    adapter: Path | None = None
    dtype: str = "float32"
    batch: int = 32
    threads: int | None = None
    context: int | None = None
    base_url: tuple[str, ...] = ()
    api_key_env: str | None = None
    servers: int = 1
    server_args: tuple[str, ...] = ()
    constrained: bool = False


@dataclass(frozen=True, slots=True)
class EncoderConfig:
    """`kind` sentence: a sentence-transformers model; fused: its vectors beside those of the image model's folder."""

    kind: str
    model: str
    max_tokens: int = 256
    image_model: Path | None = None
    image_weight: float = 0.7


@dataclass(frozen=True, slots=True)
class SourceConfig:
    """One knowledge base: what the model knows it by, what it is built from, where it is kept, how it is searched.

    Images are taken from `image_root`; by default from the folder above that of `passages`.
    """

    name: str
    tag: str
    purpose: str
    passages: Path
    folder: Path
    encoder: str
    lexical_weight: float = 0.0
    image_root: Path | None = None


@dataclass(frozen=True, slots=True)
class VariantConfig:
    """A method under a name of its own, with another adapter (null: none) or prompt set than the config's."""

    method: str
    prompts: str
    adapter: Path | None = None
    lower_case: bool = False


@dataclass(frozen=True, slots=True)
class TrainingConfig:
    """One adapter to train: step rows of `kind` made from `questions`, then tuned as `sft` says (SftConfig's keys)."""

    kind: str
    questions: Path
    sft: dict[str, Any]


@dataclass(frozen=True, slots=True)
class SynthesisSet:
    """Questions for a teacher: a benchmark's name or a file; `config` names another deployment, with its teacher.

    With `gold` the questions' own gold hops are taken for the trajectories, and no teacher is asked.
    """

    questions: str
    config: Path | None = None
    prompts: str = "guided"
    limit: int | None = None
    gold: bool = False


@dataclass(frozen=True, slots=True)
class SynthesisConfig:
    """Step data: which sets, what is kept of each (`most` trajectories), and where the files go.

    `prompts` is the set that the rows are written in, the one that the trained model will be asked in.
    """

    out: Path
    sets: dict[str, SynthesisSet]
    prompts: str = "trained"
    filters: tuple[str, ...] = ("recall", "single")
    most: int = 1000
    validation_share: float = 0.2
    seed: int = 0
