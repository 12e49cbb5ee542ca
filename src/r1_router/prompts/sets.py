"""A prompt set: the texts of one folder of `prompts/`, read once."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

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

    `{sources}` and `{purposes}` in `router` and `reminder` stand for the configured sources, `{question}` in
    `final_request` for the origin question, `{evidence}` and `{question}` in `answer_request` for the passages and what
    is asked of them.
    """

    name: str
    router: Prompt
    answer: Prompt
    final: Prompt
    direct: Prompt
    cot: Prompt
    reminder: str
    final_request: str = ""
    answer_request: str = "{evidence}\nQuestion: {question}"


TASKS = ("router", "answer", "final", "direct", "cot")


def load_prompts(name: str) -> PromptSet:
    """Read the set `name`, or the one in the folder of that path; raises ConfigError naming the sets there are."""
    folder = prompt_folder(name)
    if folder is None:
        raise ConfigError(f"prompts: no set is named {name!r}; there are {', '.join(prompt_set_names())}.")
    texts: dict[str, Any] = {task: _read_prompt(folder, task) for task in TASKS}
    texts |= {key: _read(folder, key) for key in ("final_request", "answer_request") if _has(folder, key)}
    return PromptSet(name=Path(name).name, reminder=_read(folder, "reminder"), **texts)


@cache
def load_prompt(folder: str, task: str) -> Prompt:
    """One text of one folder of the package."""
    return _read_prompt(_root() / folder, task)


def prompt_texts(name: str) -> dict[str, str]:
    """The texts of a set as they stand in its files, by file name."""
    folder = _root() / name
    return {
        entry.name.removesuffix(".txt"): _read(folder, entry.name.removesuffix(".txt")) for entry in folder.iterdir()
    }


def prompt_folder(name: str) -> Traversable | None:
    """Where the set's texts are; None where there is no such set."""
    if name in prompt_set_names():
        return _root() / name
    return Path(name) if _has(Path(name), "router") else None


def baseline_prompts(method: str) -> list[Prompt]:
    """The texts of their own that a baseline has, by its command-line name; none for other methods."""
    stem = method.replace("-", "_")
    names = sorted(entry.name.removesuffix(".txt") for entry in (_root() / "baselines").iterdir())
    return [load_prompt("baselines", name) for name in names if name.startswith(stem)]


def prompt_set_names() -> list[str]:
    """The sets that come with the package, sorted."""
    return sorted(entry.name for entry in _root().iterdir() if (entry / "router.txt").is_file())


def _root() -> Traversable:
    return files("r1_router.prompts")


def _has(folder: Traversable, task: str) -> bool:
    return (folder / f"{task}.txt").is_file()


def _read(folder: Traversable, task: str) -> str:
    """One file's text without the newline that ends it."""
    try:
        return (folder / f"{task}.txt").read_text(encoding="utf-8").removesuffix("\n")
    except FileNotFoundError as error:
        raise ConfigError(
            f"prompts: the set in {folder} has no {task}.txt; `guided` shows what a set holds."
        ) from error


def _read_prompt(folder: Traversable, task: str) -> Prompt:
    """A system text, then examples each opened by a line `--- user` or `--- assistant`."""
    system, *turns = _TURN.split(_read(folder, task))
    shots = tuple(
        {"role": role, "content": content.removesuffix("\n")}
        for role, content in zip(turns[::2], turns[1::2], strict=True)
    )
    return Prompt(system.removesuffix("\n") if shots else system, shots)
