"""A scripted model server and a shelf of passages, and the agent loop of live Step-GRPO between them, made by verl."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from r1_router.replies import format_answer, format_plan
from r1_router.training.grpo.places import Place
from r1_router.training.verl import LIVE_LOOPS, compose, with_live_loop
from r1_router.types import TEXT, Passage, Query
from verl_samples import CONFIG

LOOPS = CONFIG.with_name(LIVE_LOOPS)
PLAN, STOP = format_plan("t", "who was it?", TEXT.name), format_plan("t", "none", "none")
ANSWER = format_answer("t", "a general")


def by_the_prompt(prompt: str) -> str:
    """One sub-question, its answer, then the stop."""
    if "Plan the next step" not in prompt:
        return ANSWER
    return STOP if "Sub-question1" in prompt else PLAN


class Server:
    """verl's server manager, answering from a script; keeps the prompts and settings of its calls."""

    def __init__(self, tokenizer: Any, reply: Callable[[str], str]) -> None:
        self.prompts: list[str] = []
        self.asked: list[dict[str, Any]] = []
        self._tokenizer, self._reply = tokenizer, reply

    async def generate(
        self, request_id: str, *, prompt_ids: list[int], sampling_params: dict[str, Any], **media: Any
    ) -> Any:
        from verl.workers.rollout.replica import TokenOutput

        self.prompts.append(self._tokenizer.decode(prompt_ids, skip_special_tokens=True))
        self.asked.append({**sampling_params, **media})
        ids = self._tokenizer(self._reply(self.prompts[-1]), add_special_tokens=False)["input_ids"]
        return TokenOutput(token_ids=[*ids, self._tokenizer.eos_token_id], num_preempted=0)


class Shelf:
    """The same passages for every query: what the real server serves."""

    def __len__(self) -> int:
        return 3

    def search_many(self, queries: Sequence[Query], k: int) -> list[list[Passage]]:
        found = [Passage(str(n), f"a general, number {n}", 1.0 - n / 9, TEXT) for n in range(3)]
        return [found[:k] for _ in queries]


class Bench:
    """The committed files with another URL, as verl composes them, and the agent loop as its worker makes it."""

    def __init__(
        self, folder: Path, models: tuple[str, str], url: str, *, most: int = 900, more: Mapping[str, Any] | None = None
    ) -> None:
        from omegaconf import OmegaConf
        from verl.utils.tokenizer import hf_processor, hf_tokenizer

        (entry,) = yaml.safe_load(LOOPS.read_text(encoding="utf-8"))
        self.entry = OmegaConf.create(entry | {"url": url})
        config = folder / CONFIG.name
        config.write_text(CONFIG.read_text(encoding="utf-8"), encoding="utf-8")
        (folder / LIVE_LOOPS).write_text(yaml.safe_dump([entry | {"url": url}]), encoding="utf-8")
        model, encoder = models
        given = {
            "steps.live": "true",
            "data.max_prompt_length": most,  # the tiny tokenizer's tokens are letters
            "actor_rollout_ref.model.path": model,
            "reward.custom_reward_function.reward_kwargs.encoder": encoder,
            **(more or {}),
        }
        self.config = compose(config, with_live_loop(config, [f"{key}={value}" for key, value in given.items()]))
        self.tokenizer, self.processor = hf_tokenizer(model), hf_processor(model)

    def run(self, place: Place, replies: Sequence[str]) -> tuple[Any, Server]:
        import hydra
        from verl.experimental.agent_loop.agent_loop import DictConfigWrap
        from verl.utils.dataset.rl_dataset import get_dataset_class

        script = iter(replies)
        server = Server(self.tokenizer, lambda prompt: next(script))
        question = place.question
        extra = {
            "id": "1-1", "step_type": place.kind, "question": question.text, "picture": question.image,
            "number": place.number, "asked": place.asked,
        }  # fmt: skip

        async def one() -> Any:
            loop = hydra.utils.instantiate(
                config=self.entry,
                trainer_config=DictConfigWrap(config=self.config),
                server_manager=server,
                tokenizer=self.tokenizer,
                processor=self.processor,
                hf_model_type="qwen2_5_vl",
                dataset_cls=get_dataset_class(self.config.data),
                data_config=DictConfigWrap(self.config.data),
            )
            row = {"raw_prompt": [{"role": "user", "content": "the teacher's"}], "extra_info": extra, "index": 0}
            return await loop.run({"temperature": 1.0, "top_p": 1.0, "top_k": -1, "logprobs": False}, **row)

        return asyncio.run(one()), server
