"""Live Step-GRPO by verl: an agent loop that walks to a step's place, retrieving over HTTP, and is asked there.

verl makes one for each reply. The walk is greedy, so that the replies of a group answer one prompt; only they are
sampled. The settings stand in `configs/verl_live.yaml`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any
from uuid import uuid4

from verl.experimental.agent_loop.agent_loop import AgentLoopOutput
from verl.experimental.agent_loop.single_turn_agent_loop import SingleTurnAgentLoop

from r1_router.errors import PromptTooLong
from r1_router.llm.content import text_only
from r1_router.methods import Settings
from r1_router.prompts import load_prompts, without_last_passage
from r1_router.retrieval.remote import RemoteBase
from r1_router.training.grpo.live import LIVE, Fate, same_question, walk
from r1_router.training.grpo.places import Loop, Place
from r1_router.training.verl_reward import sentence_encoder
from r1_router.training.verl_rows import read_place
from r1_router.types import Message, Reply, Sampling, Source


class LiveSteps(SingleTurnAgentLoop):
    """Replies at the place that the policy's own walk comes to, or else to the teacher's prompt.

    `url` is that of `r1-router serve-retriever`, `sources` its name, tag and purpose each. The output's extra field
    `live` says what became of the walk.
    """

    def __init__(
        self,
        *args: Any,
        url: str,
        sources: Sequence[Mapping[str, str]],
        prompts: str,
        retrieved: int,
        shown: int,
        max_steps: int,
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        settings = Settings(_prompts(prompts), retrieved=retrieved, shown=shown, max_steps=max_steps)
        bases = {source: _base(url, source) for source in (Source(**one) for one in sources)}
        self._walked = Loop(settings, bases, ())

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> AgentLoopOutput:
        """One reply to the row's step (verl's protocol)."""
        arrived = await self._arrived(read_place(row["extra_info"]))
        fate = arrived if isinstance(arrived, Fate) else Fate.OWN
        asked = row["raw_prompt"] if isinstance(arrived, Fate) else arrived
        output = await super().run(sampling_params, **{**row, "raw_prompt": asked})
        output.extra_fields[LIVE] = fate.value
        return output

    async def chat(self, messages: Sequence[Message], *, sampling: Sampling) -> Reply:
        """One reply on the way (the protocol of a language model); raises PromptTooLong as that says."""
        prompt, images = await self._read(self._seen(messages))
        if len(prompt) > self.prompt_length:
            raise PromptTooLong(f"a prompt of {len(prompt)} tokens, where {self.prompt_length} have room.")
        params = {"temperature": sampling.temperature, "top_p": 1.0, "top_k": -1, "seed": sampling.seed}
        output = await self.server_manager.generate(
            request_id=uuid4().hex, prompt_ids=prompt, sampling_params=params, image_data=images
        )
        text = self.tokenizer.decode(output.token_ids, skip_special_tokens=True)
        return Reply(text, len(prompt), len(output.token_ids))

    async def _arrived(self, place: Place) -> Sequence[Message] | Fate:
        """The chat at the place, fitting into a prompt, or why it is the teacher's."""
        try:
            arrival = await walk(place, self, self._walked)
        except PromptTooLong:
            return Fate.TOO_LONG
        if isinstance(arrival, Fate):
            return arrival
        if arrival.asked is not None:
            encoder = sentence_encoder(self.config.reward.custom_reward_function.reward_kwargs.encoder)
            if not await asyncio.to_thread(same_question, encoder, arrival.asked, place.asked):
                return Fate.OTHER_QUESTION
        chat: Sequence[Message] | None = self._seen(arrival.messages)
        while chat is not None and len((await self._read(chat))[0]) > self.prompt_length:
            chat = without_last_passage(chat)
        return chat or Fate.TOO_LONG

    async def _read(self, messages: Sequence[Message]) -> tuple[list[int], list[Any] | None]:
        """The chat's tokens, none cut off, and its pictures."""
        images = (await self.process_multi_modal_info(list(messages))).get("images")
        build = self.continuous_token_builder.build_initial_tokens
        return await asyncio.to_thread(build, list(messages), images=images), images

    def _seen(self, messages: Sequence[Message]) -> list[Message]:
        """The chat as the data set gives it: pictures scaled down, or left out for a model without eyes."""
        if self.processor is None:
            return text_only(messages)
        return [{**message, "content": self._scaled(message["content"])} for message in messages]

    def _scaled(self, content: Any) -> Any:
        if isinstance(content, str):
            return content
        pixels = {"max_pixels": self.config.steps.max_pixels}
        return [part | pixels if part["type"] == "image" else part for part in content]


_prompts = cache(load_prompts)


@cache
def _base(url: str, source: Source) -> RemoteBase:
    """One client a process: what many walks ask at once goes out in one request."""
    return RemoteBase(url, source)
