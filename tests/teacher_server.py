"""A teacher behind an OpenAI-compatible server on loopback, who knows a small world of towns, regions and rivers.

Each town lies in a region and was founded in a year (prose); each region has a river and a length (tables). Every tenth
reply or so is malformed, by the request's seed, so that the same request is always answered alike.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from typer.testing import CliRunner

from loopback import LoopbackHandler, LoopbackServer, completion
from r1_router import jsonl
from r1_router.cli import app
from r1_router.llm.content import text_of
from r1_router.prompts.sets import load_prompt
from r1_router.types import Message
from test_methods import GOOD_ANSWER, GOOD_PLAN, STOP
from tiny_models import save_tiny_encoder

TOWNS = 12
MALFORMED = 11
"""One seed in so many gives a reply without tags."""
QUESTION = "<question>{}</question>"
HOP = QUESTION + "\n<answer>{}</answer>"
TASKS = {load_prompt("generation", task).system: task for task in ("passage", "row", "picture", "linked", "chained")}


class Server(LoopbackServer):
    """Answers as `teacher` does; `on_call` is told the number of each call before it is answered."""

    def __init__(self) -> None:
        super().__init__(Handler)
        self.calls, self.lock = 0, threading.Lock()
        self.on_call: Callable[[int], None] = lambda number: None

    def count(self) -> None:
        with self.lock:
            self.calls += 1
            self.on_call(self.calls)


class Handler(LoopbackHandler):
    server: Server

    def do_POST(self) -> None:
        request = self.received()
        if len(request) < int(self.headers["Content-Length"]):
            return  # the one who asked was killed
        body = json.loads(request)
        self.server.count()
        said = teacher(body["messages"]) if body["seed"] % MALFORMED else "I would rather not say."
        self.answer(completion(said))


def teacher(messages: Sequence[Message]) -> str:
    """What the teacher says to a request of any stage."""
    system, user = text_of(messages[0]), text_of(messages[-1])
    if system in TASKS:
        return WRITES[TASKS[system]](user)
    if "retriever" in system:
        return _route(user)
    if user.startswith("Origin question"):
        return GOOD_ANSWER.format((["unknown", *re.findall(r"Answer\d: (.*)", user)])[-1])
    evidence, _, question = user.rpartition("Question: ")
    return GOOD_ANSWER.format(_read(evidence, question))


def _town(text: str) -> str:
    return "Velm" + _only(r"velm(\d+)", text)


def _only(pattern: str, text: str) -> str:
    found = re.search(pattern, text, re.IGNORECASE)
    return found[1] if found else "0"


def _write_hop(user: str) -> str:
    """A question about a town: its region where a name is wanted, else its year."""
    town = _town(user)
    if "Wanted: the name" in user:
        return HOP.format(f"In which region does {town} lie?", _only(r"region (\w+)", user))
    return HOP.format(f"When was {town} founded?", _only(r"founded in (\d+)", user))


def _write_linked(user: str) -> str:
    subject = _only(r"Subject: (.*)", user)
    return HOP.format(f"Which river flows through {subject}?", _only(rf"{subject}: (\w+)", user))


def _write_row(user: str) -> str:
    region, river = _only(r"region: (\w+)", user), _only(r"river: (\w+)", user)
    return HOP.format(f"Which river flows through {region}?", river)


def _write_chained(user: str) -> str:
    return QUESTION.format(f"Which river flows through the region of {_town(user)}?")


WRITES: Mapping[str, Callable[[str], str]] = {
    "passage": _write_hop,
    "row": _write_row,
    "linked": _write_linked,
    "chained": _write_chained,
    "picture": lambda user: HOP.format("Which town is in the picture?", _town(user)),
}


def _route(user: str) -> str:
    """Towns first where the region is asked for by its town, then the river."""
    question, answers = user.splitlines()[0].lower(), re.findall(r"Answer\d: (.*)", user)
    if "region of" in question:
        town, name = _town(question), (answers or [""])[0]
        hops = [
            (f"in which region does {town} lie?".lower(), "text retriever"),
            (f"which river flows through {name}?", "table retriever"),
        ]
    else:
        asked = question.removeprefix("origin question: ")
        hops = [(asked, "table retriever" if "river" in asked else "text retriever")]
    return GOOD_PLAN.format(*hops[len(answers)]) if len(answers) < len(hops) else STOP


def _read(evidence: str, question: str) -> str:
    """The answer as the evidence has it."""
    if "picture" in question:
        return _town(evidence)
    if "river" not in question:
        about = rf"{_town(question)} lies in the region (\w+) and was founded in (\d+)"
        found = re.search(about, evidence)
        return found[1 if "region" in question else 2] if found else "unknown"
    region = _only(r"through (arda\d+)", question)
    if region == "0":
        region = _read(evidence, f"in which region does {_town(question)} lie?")
    return _only(rf"{region}: (\w+)", evidence)


def build_world(root: Path, url: str, **synthesis: Any) -> Path:
    """Two knowledge bases, built, three questions, and the config `mine.yaml`; gives its path."""
    save_tiny_encoder(root / "encoder")
    towns = [
        (f"Velm{n:02}", f"Velm{n:02}. Velm{n:02} lies in the region Arda{n:02} and was founded in {1800 + n}.")
        for n in range(TOWNS)
    ]
    jsonl.rewrite(root / "text.jsonl", [{"id": f"text/{name}", "title": name, "text": text} for name, text in towns])
    rivers = [(f"Arda{n:02}", f"Brook{n:02}") for n in range(TOWNS)]
    tables = [
        {
            "id": f"table/{region}",
            "title": f"River of {region}",
            "header": ["region", "river"],
            "rows": [[region, river]],
            "text": f"River of {region}. {region}: {river}",
        }
        for region, river in rivers
    ]
    jsonl.rewrite(root / "table.jsonl", tables)
    asked = [
        {"id": f"q{n}", "question": f"Which river flows through the region of Velm{n:02}?", "answers": [f"Brook{n:02}"]}
        for n in range(3)
    ]
    jsonl.rewrite(root / "mine.jsonl", asked)
    config = root / "mine.yaml"
    config.write_text(yaml.safe_dump(_config(url) | ({"synthesis": synthesis} if synthesis else {})))
    result = CliRunner().invoke(app, ["build", "--config", str(config)])
    assert result.exit_code == 0, f"{result.output}{result.exception!r}"
    return config


def _config(url: str) -> dict[str, Any]:
    return {
        "llm": {"name": "teacher", "model": "teacher", "engine": "openai", "base_url": url},
        "encoders": {"text": {"kind": "sentence", "model": "encoder"}},
        "sources": [_source("text retriever", "ter", "text"), _source("table retriever", "tar", "table")],
        "benchmarks": {},
        "prompts": "guided",
        "concurrency": 4,
    }


def _source(name: str, tag: str, kind: str) -> dict[str, Any]:
    about: dict[str, Any] = {"name": name, "tag": tag, "purpose": kind, "encoder": "text", "lexical_weight": 0.95}
    return about | {"passages": f"{kind}.jsonl", "folder": f"indexes/{kind}"}
