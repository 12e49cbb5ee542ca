"""Chats with images as training reads them: Qwen2.5-VL's processor, without the part for videos."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import AutoTokenizer, ProcessorMixin, Qwen2_5_VLProcessor
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil


class StillProcessor(Qwen2_5_VLProcessor):
    """The library's own wants a video processor, and that wants torchvision; pictures are read as at inference."""

    def __init__(self, image_processor: Any, tokenizer: Any, chat_template: str | None = None) -> None:
        self.image_token, self.video_token = "<|image_pad|>", "<|video_pad|>"
        self.image_token_id, self.video_token_id = tokenizer.convert_tokens_to_ids([self.image_token, self.video_token])
        ProcessorMixin.__init__(self, image_processor, tokenizer, chat_template=chat_template)


def load_still_processor(model: Path) -> StillProcessor:
    """The processor of a model folder, padding on the left as generation needs it."""
    tokenizer = AutoTokenizer.from_pretrained(model, padding_side="left")
    return StillProcessor(Qwen2VLImageProcessorPil.from_pretrained(model), tokenizer, tokenizer.chat_template)
