"""The parts of a run put together: the model's processor, prompts that fit it, TRL's data, and the trainer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from datasets import Dataset, Features, Image, List, Value
from transformers import PrinterCallback, ProcessorMixin

from r1_router.dtypes import torch_dtype
from r1_router.errors import ConfigError
from r1_router.llm.transformers import unspeakable_ids
from r1_router.training.grpo.batches import plan, repeated
from r1_router.training.grpo.config import GrpoConfig
from r1_router.training.grpo.live import LiveRollouts, Walks
from r1_router.training.grpo.model import load_policy
from r1_router.training.grpo.places import places
from r1_router.training.grpo.prompts import Fitted, StepPrompt, fit, fitting, read_prompts
from r1_router.training.grpo.rewarding import StepRewards
from r1_router.training.grpo.run import World
from r1_router.training.grpo.trainer import Hooks, StepGrpoTrainer, held_out_batch, passes, trl_settings, uses_vllm
from r1_router.training.grpo.variation import under_other_names
from r1_router.training.swaps import Swapper
from r1_router.types import Message


def fitting_prompts(config: GrpoConfig, processor: Any, swapper: Swapper | None = None) -> tuple[Fitted, Fitted | None]:
    """The prompts to train on and, if the config has them, the held-out ones; both fit in `max_prompt` tokens."""

    def read(path: Path) -> Fitted:
        sees = isinstance(processor, ProcessorMixin)
        prompts = read_prompts(path, step_types=config.step_types, sees_images=sees)
        if swapper is not None:
            prompts = under_other_names(prompts, swapper, config.swap_share, config.seed)
        return fit(prompts, partial(_length, processor), config.max_prompt, shorten=config.shorten)

    return read(config.data), read(config.held_out) if config.held_out else None


def step_rewards_of(config: GrpoConfig, world: World, processor: Any) -> StepRewards:
    """The config's rewards; a reply may hold no id that is no text, but for its end."""
    tokenizer = getattr(processor, "tokenizer", processor)
    special = unspeakable_ids(tokenizer, len(tokenizer))
    return StepRewards(world.encoder, world.sources, config.rewards, parts=config.reward_parts, special=special)


def build_trainer(
    config: GrpoConfig,
    rewards: StepRewards,
    processor: Any,
    prompts: tuple[Sequence[StepPrompt], Sequence[StepPrompt]],
    world: World,
    hooks: Hooks,
    folder: Path,
    *,
    device: str,
    resumed: bool,
) -> StepGrpoTrainer:
    """TRL's trainer over these prompts, quiet, with `folder` for its checkpoints."""
    vision = isinstance(processor, ProcessorMixin)
    training, held_out = prompts
    trainer = StepGrpoTrainer(
        step_config=config,
        orders=(_train_order(config, training), _held_out_order(config, held_out)),
        hooks=hooks,
        model=load_policy(config, device),
        reward_funcs=rewards,
        args=trl_settings(config, folder, device, resumed=resumed),
        train_dataset=as_dataset(training, vision),
        eval_dataset=as_dataset(held_out, vision) if held_out else None,
        processing_class=processor,
        rollout_func=_rollouts(config, processor, device, walks_of(config, world, processor, prompts)),
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


def as_dataset(prompts: Sequence[StepPrompt], vision: bool) -> Dataset:
    """TRL's columns: the chat, the answer, the type of step, and pictures where the model sees them."""
    features: dict[str, Any] = {
        "prompt": List(_message(vision)),
        "target": Value("string"),
        "step_type": Value("string"),
    }
    rows: list[dict[str, Any]] = [
        {"prompt": [_as_row(message, vision) for message in prompt.messages], "target": prompt.target,
         "step_type": prompt.step_type, **({"images": list(prompt.images)} if vision else {})}
        for prompt in prompts
    ]  # fmt: skip
    if vision:
        features["images"] = List(Image())
    return Dataset.from_list(rows, features=Features(features))


def _message(vision: bool) -> dict[str, Any]:
    content = List({"type": Value("string"), "text": Value("string")}) if vision else Value("string")
    return {"role": Value("string"), "content": content}


def _as_row(message: dict[str, Any], vision: bool) -> dict[str, Any]:
    content = message["content"]
    if vision and isinstance(content, str):
        content = [{"type": "text", "text": content}]
    if vision:
        content = [{"type": part["type"], "text": part.get("text")} for part in content]
    return {"role": message["role"], "content": content}


def walks_of(
    config: GrpoConfig, world: World, processor: Any, prompts: tuple[Sequence[StepPrompt], Sequence[StepPrompt]]
) -> Walks | None:
    """How the policy comes to its own places; None where the teacher's prompts are used."""
    if not config.live:
        return None
    if world.loop is None:
        raise ConfigError("grpo.live: the adapter's `questions` are to be walked; name their file.")
    files = ((config.data, prompts[0]), (config.held_out, prompts[1]))
    found = [places(path, own, world.loop) for path, own in files if path is not None]
    fit_chat = partial(fitting, length_of=partial(_length, processor), most=config.max_prompt, shorten=config.shorten)
    return Walks(world.loop, {chat: place for part in found for chat, place in part.items()}, world.encoder, fit_chat)


def _rollouts(config: GrpoConfig, processor: Any, device: str, walks: Walks | None) -> Any:
    """This package's decoder for text models, unless another engine is asked for; None: TRL's own."""
    own = config.engine == "decoder" or (config.engine == "auto" and not uses_vllm(config, device))
    if not own or isinstance(processor, ProcessorMixin):
        if walks is not None:
            raise ConfigError("grpo.live: only this package's decoder walks: a text model, and engine: decoder.")
        return None
    from r1_router.training.grpo.rollouts import Rollouts

    rollouts = Rollouts(config.model, processor, torch_dtype(config.dtype, device), device)
    return rollouts if walks is None else LiveRollouts(rollouts, walks)


def _train_order(config: GrpoConfig, prompts: Sequence[StepPrompt]) -> list[int]:
    """A loader's batch is the prompts of one rollout; TRL takes it once for every pass that uses it."""
    rollouts = -(-config.updates // config.updates_per_rollout)
    size = config.prompts * config.updates_per_rollout
    batches = plan(prompts, size, rollouts, seed=config.seed, keep_together=config.keep_together)
    return repeated(batches, config.group, passes(config) * config.updates_per_rollout)


def _held_out_order(config: GrpoConfig, prompts: Sequence[StepPrompt]) -> list[int]:
    """The same prompts at every evaluation: `held_out_prompts` of them, each sampled once."""
    if not prompts:
        return []
    size = held_out_batch(config)
    batches = plan(prompts, size, -(-config.held_out_prompts // size), seed=config.seed)
    return [index for batch in batches for index in batch]


def _length(processor: Any, messages: Sequence[Message]) -> int:
    """Tokens of a chat as the model is asked it, pictures included."""
    encoded = processor.apply_chat_template(list(messages), tokenize=True, add_generation_prompt=True, return_dict=True)
    ids = encoded["input_ids"]
    return len(ids[0] if isinstance(ids[0], list) else ids)
