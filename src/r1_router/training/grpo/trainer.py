"""TRL's trainer, with prompts in planned batches, packed groups on a CPU, and gradients that are looked at first."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Sampler
from trl import GRPOConfig, GRPOTrainer

from r1_router.llm.transformers import unspeakable_ids
from r1_router.training.grpo.config import GrpoConfig
from r1_router.training.grpo.packing import packed_log_probs
from r1_router.training.grpo.watchdogs import SKIPPED
from r1_router.training.merged_lora import merged_weights

Order = Sequence[int]
"""Indices of prompts, in the order that the loader takes them."""


@dataclass(frozen=True, slots=True)
class Hooks:
    """`judge(model, step)` is called at an evaluation, `mark(folder)` for a checkpoint that is whole."""

    judge: Callable[[Any, int], None]
    mark: Callable[[Path], None]


class StepGrpoTrainer(GRPOTrainer):
    """`orders` are those of training and of the held-out steps."""

    _buffered_inputs: Any  # TRL's, declared for the type checker

    def __init__(self, *, step_config: GrpoConfig, orders: tuple[Order, Order], hooks: Hooks, **options: Any) -> None:
        self.step_config = step_config
        self._train_order, self._held_out_order = orders
        self._hooks = hooks
        super().__init__(**options)
        if self.use_vllm:
            # TRL's own adds the adapter to the frozen weights and takes it off again, which changes bfloat16 ones.
            self.vllm_generation._iter_named_params = lambda: merged_weights(self.model)
            marks = unspeakable_ids(self._tokenizer, len(self._tokenizer)) - set(self.eos_token_ids)
            self.vllm_generation.generation_kwargs = {"logit_bias": dict.fromkeys(marks, -100.0)}

    def _get_train_sampler(self, dataset: Any = None) -> Sampler[int]:
        return _Ordered(self._train_order)

    def _get_eval_sampler(self, eval_dataset: Any) -> Sampler[int]:
        return _Ordered(self._held_out_order)

    def _prepare_inputs(self, generation_batch: Any) -> Any:
        """TRL shuffles a sampled batch before it is cut into passes; here groups stay whole, to be packed."""
        if not self._packs() or not self.model.training:
            return super()._prepare_inputs(generation_batch)
        passes = self.args.steps_per_generation
        if self._step % passes == 0 or self._buffered_inputs is None:
            made = self._generate_and_score_completions(generation_batch)
            self._buffered_inputs = [_part(made, number, passes) for number in range(passes)]
        return self._buffered_inputs[self._step % passes]

    def _generate_single_turn(self, prompt_ids: Any, images: Any, *rest: Any, **options: Any) -> Any:
        """vLLM puts in the tokens of a picture itself, so it is asked with one for each."""
        if self.use_vllm and images is not None:
            prompt_ids = [_once(ids, self.processing_class.image_token_id) for ids in prompt_ids]
        return super()._generate_single_turn(prompt_ids, images, *rest, **options)

    def _get_per_token_logps_and_entropies(
        self, model: Any, input_ids: Tensor, attention_mask: Tensor, logits_to_keep: int, *args: Any, **fields: Any
    ) -> tuple[Tensor, Tensor | None, None]:
        if not self._packs():
            return super()._get_per_token_logps_and_entropies(
                model, input_ids, attention_mask, logits_to_keep, *args, **fields
            )
        return *packed_log_probs(model, input_ids, attention_mask, logits_to_keep, self.temperature), None

    def _compute_loss(self, model: Any, inputs: Any) -> Tensor:
        """Groups without spread have no gradient, so where nothing else weighs on them they are not computed."""
        if self._packs() and self.beta == 0 and not inputs["advantages"].any():
            return sum(weight.sum() for weight in model.parameters() if weight.requires_grad) * 0.0
        return super()._compute_loss(model, inputs)

    def _clip_grad_norm(self, model: Any) -> Any:
        """Gradients that are no numbers are dropped, so that the update changes nothing, and counted."""
        norm = super()._clip_grad_norm(model)
        finite = math.isfinite(float(norm))
        self._metrics["train"][SKIPPED].append(0.0 if finite else 1.0)
        if not finite:
            model.zero_grad(set_to_none=True)
        return norm

    def prediction_step(self, model: Any, inputs: Any, *_: Any, **__: Any) -> tuple[Tensor, None, None]:
        """Held-out steps are sampled and rewarded; a loss on them would say nothing."""
        self._prepare_inputs(inputs)
        return torch.zeros((), device=self.accelerator.device), None, None

    def _evaluate(self, *args: Any, **options: Any) -> dict[str, float]:
        measures = super()._evaluate(*args, **options) if self.eval_dataset is not None else {}
        self._hooks.judge(self.model, self.state.global_step)
        return measures

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        super()._save_checkpoint(model, trial)
        self._hooks.mark(Path(self.args.output_dir, f"checkpoint-{self.state.global_step}"))

    def create_model_card(self, *args: Any, **kwargs: Any) -> None:
        """None: the run's own card says how it was made."""

    def _packs(self) -> bool:
        return self.accelerator.device.type == "cpu" and not self._is_vlm


class _Ordered(Sampler[int]):
    def __init__(self, order: Order) -> None:
        self._order = order

    def __iter__(self) -> Any:
        return iter(self._order)

    def __len__(self) -> int:
        return len(self._order)


def trl_settings(config: GrpoConfig, folder: Path, device: str, *, resumed: bool) -> GRPOConfig:
    """The run in TRL's words."""
    accumulation = passes(config)
    bf16 = not config.lora and config.dtype != "float32" and device == "cuda"
    return GRPOConfig(
        output_dir=str(folder),
        max_steps=config.updates,
        num_generations=config.group,
        per_device_train_batch_size=config.group * config.groups_per_pass,
        per_device_eval_batch_size=held_out_batch(config),
        num_generations_eval=1,
        gradient_accumulation_steps=accumulation,
        steps_per_generation=accumulation * config.updates_per_rollout,
        max_completion_length=config.max_tokens,
        temperature=config.temperature,
        top_k=config.top_k,
        learning_rate=config.learning_rate,
        warmup_steps=config.warmup_steps,
        lr_scheduler_type=config.schedule,
        beta=config.beta,
        loss_type=config.loss,
        epsilon=config.epsilon,
        epsilon_high=config.epsilon_high,
        scale_rewards=config.scale_rewards,
        importance_sampling_level="sequence" if config.loss == "luspo" else "token",
        mask_truncated_completions=config.mask_cut,
        max_grad_norm=config.max_norm,
        gradient_checkpointing=config.gradient_checkpointing,
        bf16=bf16,
        use_cpu=device == "cpu",
        seed=config.seed,
        logging_steps=1,
        save_strategy="steps",
        save_steps=config.checkpoint_updates,
        save_total_limit=2,
        eval_on_start=bool(config.evaluate_updates) and not resumed,
        report_to="none",
        disable_tqdm=True,
        dataloader_pin_memory=False,
        **(_vllm_settings(config) if uses_vllm(config, device) else {}),
    )


def _vllm_settings(config: GrpoConfig) -> dict[str, Any]:
    return {
        "use_vllm": True,
        "vllm_mode": "colocate",
        "vllm_max_model_length": config.max_prompt + config.max_tokens,
        "vllm_gpu_memory_utilization": config.vllm_memory,
        # What top_k leaves out would pass for vLLM's own deviation: a reply's weight would shrink with each token.
        "vllm_importance_sampling_correction": not config.top_k,
    }


def passes(config: GrpoConfig) -> int:
    """Passes of forward and backward in one update."""
    return config.prompts // config.groups_per_pass


def held_out_batch(config: GrpoConfig) -> int:
    """Held-out prompts sampled at once: as many as there are, up to an update's replies."""
    return min(config.held_out_prompts, config.group * config.prompts)


def uses_vllm(config: GrpoConfig, device: str) -> bool:
    """Whether vLLM samples the replies: where it is asked for, and by default on a GPU that has it."""
    from importlib.util import find_spec

    return config.engine == "vllm" or (config.engine == "auto" and device == "cuda" and find_spec("vllm") is not None)


def _once(ids: Sequence[int], mark: int) -> list[int]:
    """The ids, each run of the mark's as one."""
    return [id_ for place, id_ in enumerate(ids) if not (place and ids[place - 1] == id_ == mark)]


def _part(batch: dict[str, Any], number: int, parts: int) -> dict[str, Any]:
    """One of equal parts of a batch's rows; what is no tensor of rows is the same for all."""
    size = len(batch["advantages"]) // parts
    rows = slice(number * size, (number + 1) * size)
    return {key: value[rows] if isinstance(value, Tensor) and value.dim() else value for key, value in batch.items()}
