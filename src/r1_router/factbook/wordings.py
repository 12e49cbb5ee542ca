"""The wordings of the questions: `wordings.yaml`, joined by the paraphrases that only training questions use."""

from __future__ import annotations

from typing import Any

from r1_router.factbook.source import load_yaml

MORE = "more"
"""Beside `train`, `dev` and `test`: wordings of training questions alone, so that the other splits stay as they are."""


def load_wordings() -> dict[str, Any]:
    """Every list of `wordings.yaml`, with that of `paraphrases.yaml` under `more`."""
    words: dict[str, Any] = _joined(load_yaml("wordings.yaml"), load_yaml("paraphrases.yaml"))
    return words


def _joined(words: Any, more: Any) -> Any:
    if isinstance(more, list):
        return {**words, MORE: more}
    return {**words, **{key: _joined(words[key], part) for key, part in more.items()}}
