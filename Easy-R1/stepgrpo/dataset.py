"""Step rows as EasyR1 takes them, each with a system prompt of its own."""

from __future__ import annotations

from typing import Any

from verl.utils.dataset import RLHFDataset

IMAGE_MARK = "<image>"


class StepDataset(RLHFDataset):
    """Flat step rows, as `r1-router steps flatten` writes them; EasyR1's own class makes one user message of a text."""

    def _build_messages(self, example: dict[str, Any]) -> list[dict[str, Any]]:
        """The row's chat, with a place for each picture behind the text; a text-only row has none."""
        system, user = example[self.prompt_key]
        text = {"type": "text", "text": user["content"].replace(IMAGE_MARK, "")}
        pictures = [{"type": "image"} for _ in example[self.image_key]]
        return [system, {"role": "user", "content": [text, *pictures]}]
