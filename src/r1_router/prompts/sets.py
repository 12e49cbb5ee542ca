"""A prompt set: the texts of one folder of `prompts/`, read once."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable

from r1_router.errors import ConfigError
from r1_router.types import Message

_TURN = re.compile(r"^--- (user|assistant)\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Prompt:
    """One task: its system text, and the example turns that follow it (user, assistant, user, ...)."""

    system: str
    shots: tuple[Message, ...] = ()


@dataclass(frozen=True, slots=True)
class PromptSet:
    """The wording of every call a method makes.

    `{sources}` and `{purposes}` in `router` and `reminder` stand for the configured sources,
    `{question}` in `final_request` for the origin question.
    """

    name: str
    router: Prompt
    answer: Prompt
    final: Prompt
    direct: Prompt
    cot: Prompt
    reminder: str
    final_request: str = ""


def load_prompts(name: str) -> PromptSet:
    """Read the set `name`; raises ConfigError naming the sets there are."""
    if name not in prompt_set_names():
        raise ConfigError(f"prompts: no set is named {name!r}; there are {', '.join(prompt_set_names())}.")
    folder = _root() / name
    return PromptSet(
        name=name,
        **{task: _read_prompt(folder, task) for task in ("router", "answer", "final", "direct", "cot")},
        reminder=_read(folder, "reminder"),
        final_request=_read(folder, "final_request") if (folder / "final_request.txt").is_file() else "",
    )


def prompt_set_names() -> list[str]:
    """The sets that come with the package, sorted."""
    return sorted(entry.name for entry in _root().iterdir() if (entry / "router.txt").is_file())


def _root() -> Traversable:
    return files("r1_router.prompts")


def _read(folder: Traversable, task: str) -> str:
    """One file's text without the newline that ends it."""
    return (folder / f"{task}.txt").read_text(encoding="utf-8").removesuffix("\n")


def _read_prompt(folder: Traversable, task: str) -> Prompt:
    """A system text, then examples each opened by a line `--- user` or `--- assistant`."""
    system, *turns = _TURN.split(_read(folder, task))
    shots = tuple(
        {"role": role, "content": content.removesuffix("\n")}
        for role, content in zip(turns[::2], turns[1::2], strict=True)
    )
    return Prompt(system.removesuffix("\n"), shots)
