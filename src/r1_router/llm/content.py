"""What a chat message holds, read the same way by every engine."""

from __future__ import annotations

from collections.abc import Sequence

from r1_router.types import Message


def text_of(message: Message) -> str:
    """The message's text, its image parts dropped."""
    content = message["content"]
    if isinstance(content, str):
        return content
    return "".join(part["text"] for part in content if part["type"] == "text")


def text_only(messages: Sequence[Message]) -> list[Message]:
    """The same chat for a model that sees no images: every content a plain string."""
    return [{"role": message["role"], "content": text_of(message)} for message in messages]
