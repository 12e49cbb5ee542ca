"""A vision-language model in this process (Qwen2.5-VL), through the transformers library's own generation.

Chats that wait at the same time are answered in batches of like length. For questions by the thousand serve the model
with vLLM; this engine is for a laptop, for checks, and for a GPU without a server.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from r1_router.batcher import Batcher
from r1_router.dtypes import torch_dtype
from r1_router.errors import DataError, EngineError, PromptTooLong
from r1_router.llm.transformers import end_ids, unspeakable_ids
from r1_router.pictures import open_picture
from r1_router.types import Message, Reply, Sampling

if TYPE_CHECKING:
    import torch

IMAGE_TYPE = 1
"""How the model's position code names image tokens; text is 0."""


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """One chat as the model takes it: token ids with a place for each image patch group, and the patches."""

    ids: list[int]
    pixels: torch.Tensor | None
    grids: torch.Tensor | None
    sampling: Sampling


class VisionLLM:
    """Chats with a model that sees images.

    `model` is a folder or a hub name, `adapter` a LoRA folder merged at load, `batch` the most chats generated at once,
    `context` the most tokens of prompt, images and reply together (None: what the model was made for).
    """

    def __init__(
        self,
        model: str | Path,
        *,
        adapter: str | Path | None = None,
        dtype: str = "float32",
        batch: int = 8,
        threads: int | None = None,
        context: int | None = None,
    ) -> None:
        import torch
        from transformers import AutoModelForImageTextToText, AutoTokenizer
        from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

        if threads is not None:
            torch.set_num_threads(threads)
        self._device = "cuda" if torch.cuda.is_available() else "cpu"
        wanted = torch_dtype(dtype, self._device)
        try:
            self._tokenizer = AutoTokenizer.from_pretrained(model)
            self._images = Qwen2VLImageProcessorPil.from_pretrained(model)
            weights = AutoModelForImageTextToText.from_pretrained(
                model, dtype=wanted if adapter is None else torch.float32
            )
        except (OSError, ValueError) as error:
            raise EngineError(f"no vision-language model could be loaded from {model}: {error}.") from error
        if adapter is not None:
            from peft import PeftModel

            weights = PeftModel.from_pretrained(weights, str(adapter)).merge_and_unload()
        self._model = weights.to(device=self._device, dtype=wanted).eval()
        self._image_id = weights.config.image_token_id
        self._image_token = self._tokenizer.convert_ids_to_tokens(self._image_id)
        text = weights.config.get_text_config()
        self._context = min(context or text.max_position_embeddings, text.max_position_embeddings)
        self._stops = end_ids(weights.generation_config, self._tokenizer)
        self._banned = sorted(unspeakable_ids(self._tokenizer, text.vocab_size) - self._stops)
        self._batcher = Batcher(self._generate, batch, key=lambda chat: len(chat.ids))

    async def chat(self, messages: Sequence[Message], *, sampling: Sampling) -> Reply:
        """One reply; raises PromptTooLong when prompt and images leave no room in the context."""
        prepared = self._prepare(messages, sampling)
        if len(prepared.ids) >= self._context:
            raise PromptTooLong(
                f"the prompt has {len(prepared.ids)} tokens with its images, and the context holds {self._context}: "
                "show fewer passages (config: shown) or raise the config's llm.context."
            )
        return await self._batcher(prepared)

    def _prepare(self, messages: Sequence[Message], sampling: Sampling) -> Prepared:
        """Render the chat with the model's own template, a token for each group of patches in place of each image."""
        text = self._tokenizer.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=True)
        pictures = [
            _opened(part["image"]) for message in messages for part in _parts(message) if part["type"] == "image"
        ]
        pixels = grids = None
        if pictures:
            seen = self._images(images=pictures, return_tensors="pt")
            pixels, grids = seen["pixel_values"], seen["image_grid_thw"]
            before, *after = text.split(self._image_token)
            counts = (grids.prod(dim=1) // self._images.merge_size**2).tolist()
            text = before + "".join(self._image_token * count + rest for count, rest in zip(counts, after, strict=True))
        return Prepared(self._tokenizer(text, add_special_tokens=False)["input_ids"], pixels, grids, sampling)

    def _generate(self, chats: Sequence[Prepared]) -> list[Reply]:
        """Generate for several chats at once, padded on the left."""
        import torch
        from transformers import LogitsProcessorList

        from r1_router.llm.row_sampling import RowSampling

        width = max(len(chat.ids) for chat in chats)
        pad = next(iter(sorted(self._stops)))
        ids = torch.tensor([[pad] * (width - len(chat.ids)) + chat.ids for chat in chats], device=self._device)
        mask = torch.tensor(
            [[0] * (width - len(chat.ids)) + [1] * len(chat.ids) for chat in chats], device=self._device
        )
        seen: dict[str, Any] = {}
        if any(chat.pixels is not None for chat in chats):
            seen["pixel_values"] = torch.cat([chat.pixels for chat in chats if chat.pixels is not None]).to(
                self._model.dtype
            )
            seen["image_grid_thw"] = torch.cat([chat.grids for chat in chats if chat.grids is not None])
            seen = {key: value.to(self._device) for key, value in seen.items()}
        with torch.inference_mode():
            output = self._model.generate(
                input_ids=ids,
                attention_mask=mask,
                mm_token_type_ids=(ids == self._image_id).int() * IMAGE_TYPE,
                **seen,
                do_sample=False,
                max_new_tokens=max(map(self._room, chats)),
                eos_token_id=sorted(self._stops),
                pad_token_id=pad,
                logits_processor=LogitsProcessorList(
                    [RowSampling([chat.sampling for chat in chats], self._banned, self._device)]
                ),
            )
        return [self._reply(chat, row) for chat, row in zip(chats, output[:, width:].tolist(), strict=True)]

    def _room(self, chat: Prepared) -> int:
        """The most tokens of the chat's own reply, however long the others of its batch are: padding takes no place."""
        return min(chat.sampling.max_tokens, self._context - len(chat.ids))

    def _reply(self, chat: Prepared, row: list[int]) -> Reply:
        end = next((place for place, id_ in enumerate(row) if id_ in self._stops), len(row))
        written = row[: min(end, self._room(chat))]
        return Reply(self._tokenizer.decode(written, skip_special_tokens=True), len(chat.ids), len(written))


def sees_images(model: str | Path) -> bool:
    """Whether the model of a folder or hub name has a part for images."""
    from transformers import AutoConfig

    try:
        return hasattr(AutoConfig.from_pretrained(model), "vision_config")
    except (OSError, ValueError):
        return False  # loading it will say what is wrong


def _parts(message: Message) -> Sequence[dict[str, str]]:
    return [] if isinstance(message["content"], str) else message["content"]


def _opened(path: str) -> Any:
    try:
        return open_picture(path)
    except DataError as error:
        raise EngineError(f"the question's image: {error}") from error
