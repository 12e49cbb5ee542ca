"""What a Step-GRPO run is told, checked, and the digest that names it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from r1_router.errors import ConfigError
from r1_router.files import sha256_of
from r1_router.reward_rules import ANSWER_PARTS, ANSWER_STEPS, REFERENCE, ROUTE_PARTS, ROUTE_STEP, RewardOptions
from r1_router.training.grpo.watchdogs import Limits

STEP_TYPES = (ROUTE_STEP, *ANSWER_STEPS)
LOSSES = ("grpo", "bnpo", "dr_grpo", "dapo", "cispo", "sapo", "luspo", "vespo")
ENGINES = ("auto", "decoder", "transformers", "vllm")
NOT_IN_DIGEST = (
    *("model", "adapter", "data", "held_out", "output"),
    *("vllm_memory", "checkpoint_updates", "max_minutes", "command"),
)
"""Settings that do not change the result, and paths: digests of what lies there stand for them."""


@dataclass(frozen=True, slots=True)
class GrpoConfig:
    """One run: `model` and the `adapter` it starts from are folders, `data` and `held_out` files of step rows.

    An update takes `prompts` step prompts and samples `group` replies to each; a group's rewards against their own
    mean are its advantages. Raises ConfigError for settings that do not fit together.
    """

    model: Path
    data: Path
    output: Path
    adapter: Path | None = None  # none: a fresh one of `rank`
    held_out: Path | None = None
    step_types: tuple[str, ...] = STEP_TYPES  # which steps are trained on
    swap_share: float = 0.0  # of the steps, held-out ones too: their names swapped for others, which makes them harder
    live: bool = False  # the policy walks to each step by itself, retrieving live, and is asked there
    keep_together: bool = False  # a trajectory's steps in one batch
    max_prompt: int = 1024  # tokens; a longer prompt loses passages, or is dropped
    shorten: bool = True
    group: int = 8
    prompts: int = 8
    updates: int = 200
    updates_per_rollout: int = 1  # above 1 the later ones are clipped; `prompts` are sampled for each
    temperature: float = 1.0
    top_k: int = 20  # 0: all tokens
    max_tokens: int = 128
    engine: str = "auto"  # what samples: this package's decoder for text models, vllm on a GPU that has it
    rollout_batch: int = 64  # replies decoded at once by this package's decoder
    vllm_memory: float = 0.3  # vllm's share of the GPU's memory: its copy of the weights, and what it decodes with
    learning_rate: float = 5e-5
    warmup_steps: int = 5
    schedule: str = "constant_with_warmup"
    beta: float = 0.0  # KL weight against the start; 0 in the paper and the reference, and then no cost
    loss: str = "dapo"
    epsilon: float = 0.2
    epsilon_high: float | None = None
    scale_rewards: str = "group"
    mask_cut: bool = False  # replies cut at max_tokens teach nothing
    max_norm: float = 1.0
    rewards: RewardOptions = REFERENCE
    reward_parts: tuple[str, ...] = ()  # only these parts are paid; all by default
    lora: bool = True
    rank: int = 16
    alpha: int = 32
    dtype: str = "float32"
    gradient_checkpointing: bool = False
    groups_per_pass: int = 1  # groups whose gradients are computed at once
    evaluate_updates: int = 25
    held_out_prompts: int = 48
    dev: str | None = None  # a benchmark of the config that the loop answers at each evaluation
    dev_questions: int = 60
    checkpoint_updates: int = 10
    seed: int = 0
    max_minutes: float = float("inf")
    limits: Limits = field(default_factory=Limits)
    command: str = ""  # for the card

    def __post_init__(self) -> None:
        _require_known("step_types", self.step_types, STEP_TYPES)
        _require_known("loss", (self.loss,), LOSSES)
        _require_known("engine", (self.engine,), ENGINES)
        _require_known("reward_parts", self.reward_parts, (*ROUTE_PARTS, *ANSWER_PARTS))
        for name in ("prompts", "updates", "updates_per_rollout", "max_tokens", "checkpoint_updates"):
            if getattr(self, name) < 1:
                raise ConfigError(f"grpo.{name}: must be at least 1, found {getattr(self, name)}.")
        if self.group < 2:
            raise ConfigError(f"grpo.group: a group of {self.group} has nothing to be compared with; take 4 to 16.")
        if self.prompts % self.groups_per_pass:
            raise ConfigError(f"grpo.groups_per_pass: {self.groups_per_pass} does not divide prompts ({self.prompts}).")
        if self.checkpoint_updates % self.updates_per_rollout:
            raise ConfigError("grpo.checkpoint_updates: must be a multiple of updates_per_rollout, to resume exactly.")
        if not 0 <= self.swap_share <= 1:
            raise ConfigError(f"grpo.swap_share: a share is from 0 to 1, found {self.swap_share}.")
        if self.live and self.swap_share:
            raise ConfigError("grpo.live: the bases hold the true names only; set swap_share: 0.")
        if self.live and self.engine not in ("auto", "decoder"):
            raise ConfigError(f"grpo.live: only this package's decoder walks; set engine: decoder, not {self.engine}.")
        if self.temperature <= 0:
            raise ConfigError("grpo.temperature: must be above 0, or all replies of a group are the same.")
        if self.max_norm <= 0:
            raise ConfigError("grpo.max_norm: must be above 0; it is where gradients are looked at.")


def run_digest(config: GrpoConfig, world: str) -> str:
    """A name for the settings and inputs that determine the result: only an equal run may resume a checkpoint.

    `world` names what else does: the encoder, and the names that are swapped.
    """
    settings = {key: value for key, value in asdict(config).items() if key not in NOT_IN_DIGEST}
    parts = [settings, world, *map(sha256_of, _inputs(config))]
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:16]


def _inputs(config: GrpoConfig) -> list[Path]:
    """The files that a run is made from; raises ConfigError for one that is not there."""
    rows = [config.data, *([config.held_out] if config.held_out else [])]
    for path in rows:
        if not path.is_file():
            raise ConfigError(f"no step rows in {path}; `r1-router synthesize` makes them.")
    folders = [config.model, *([config.adapter] if config.adapter else [])]
    return [*rows, *(path for folder in folders for path in sorted(folder.glob("*.safetensors")))]


def _require_known(key: str, names: tuple[str, ...], known: tuple[str, ...]) -> None:
    for name in names:
        if name not in known:
            raise ConfigError(f"grpo.{key}: {name!r} is not known; there are {', '.join(dict.fromkeys(known))}.")
