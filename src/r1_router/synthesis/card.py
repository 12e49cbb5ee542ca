"""The data card of step rows: what is in them, how long it is, what was dropped, what is there twice or leaks.

`statistics` counts, `card_markdown` tells it, `write_card` writes both (`stats.json`, `card.md`).
"""

from __future__ import annotations

import html
import json
import statistics as numbers
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from r1_router.errors import DataError
from r1_router.files import write_atomically
from r1_router.synthesis.flat import target_of
from r1_router.synthesis.leakage import Asked, leaks, normalised
from r1_router.synthesis.places import Kind, Place, Row, origin_question, places_of, routes_of
from r1_router.types import NONE

TOKEN_LIMITS = {"prompt": 1024, "target": 1024}
"""What the published training cuts a prompt and a reply at."""
ROUTES_SHOWN = 20
"""Lines of the card's table of routes, the commonest first; stats.json has them all."""
UNREADABLE = "?"


class Tokenizer(Protocol):
    """What counts tokens: `encode(text)` gives something with a length."""

    def encode(self, text: str) -> Any: ...


def statistics(
    rows: Sequence[Row],
    *,
    sets: Sequence[str] = (),
    dropped: Mapping[str, int] | None = None,
    questions: Mapping[str, Asked | None] | None = None,
    tokenizer: Tokenizer | None = None,
) -> dict[str, Any]:
    """All that the card tells, as plain JSON.

    `sets` names the set that each row comes of. `questions` are those that must not be trained on, None for a file that
    could not be read. With a `tokenizer` lengths are told in tokens, too: of the texts, without a chat template's own
    and without an image's. Raises DataError for what is no step row.
    """
    if sets and len(sets) != len(rows):
        raise DataError(f"the card needs the set of each row: {len(rows)} rows, {len(sets)} sets.")
    places = [place for number, row in enumerate(rows, start=1) for place in places_of(row, number)]
    by_set = {name: [row for row, own in zip(rows, sets, strict=True) if own == name] for name in dict.fromkeys(sets)}
    lengths = {"words": _lengths(places, lambda text: len(text.split()), {})}
    if tokenizer is not None:
        lengths["tokens"] = _lengths(places, lambda text: len(tokenizer.encode(text)), TOKEN_LIMITS)
    return {
        **_counts(rows),
        "sets": {name: _counts(own) for name, own in by_set.items()},
        "routes": _by_count(Counter(_route_text(row) for row in rows)),
        "lengths": lengths,
        "token_limits": TOKEN_LIMITS,
        "dropped": dict(dropped or {}),
        "duplicates": _duplicates(rows, places),
        "leakage": {name: None if asked is None else leaks(rows, asked) for name, asked in (questions or {}).items()},
    }


def write_card(folder: Path, figures: Mapping[str, Any]) -> None:
    """Write `stats.json` and `card.md`, each whole."""
    write_atomically(folder / "stats.json", json.dumps(figures, ensure_ascii=False, indent=2) + "\n")
    write_atomically(folder / "card.md", card_markdown(figures))


def card_markdown(figures: Mapping[str, Any]) -> str:
    """The card as GitHub reads it; names from data are never taken for markup."""
    head = f"{figures['rows']} rows, {figures['steps']} steps, {figures['rows_with_image']} rows with an image."
    lines = ["# Step data", "", head]
    for title, note, table in _sections(figures):
        lines += ["", f"## {title}", *(["", note] if note else []), "", *_table(table)]
    return "\n".join(lines) + "\n"


def _sections(figures: Mapping[str, Any]) -> Iterator[tuple[str, str, list[list[Any]]]]:
    """Title, note and table of each part of the card."""
    yield "Sets", "", _sets_table(figures)
    routes = list(figures["routes"].items())
    rest = f"The {ROUTES_SHOWN} commonest of {len(routes)}." if len(routes) > ROUTES_SHOWN else ""
    yield "Routes", rest, [["route", "rows"], *routes[:ROUTES_SHOWN]]
    limits = figures["token_limits"]
    note = f"The limits of training are {limits['prompt']:,} tokens a prompt and {limits['target']:,} a reply"
    counted = "." if "tokens" in figures["lengths"] else "; tokens were not counted, for no tokenizer was given."
    yield "Lengths", note + counted, _lengths_table(figures["lengths"])
    if figures["dropped"]:
        yield "Dropped", "", [["reason", "trajectories"], *figures["dropped"].items()]
    yield "Duplicates", "", [["what is there again", "times"], *figures["duplicates"].items()]
    if figures["leakage"]:
        yield "Leakage", LEAKAGE_NOTE, _leakage_table(figures["leakage"])


LEAKAGE_NOTE = (
    "Rows that share something with a set for evaluation. A question about a picture is the same only with the same "
    "picture: the last column tells true leaks."
)


def _sets_table(figures: Mapping[str, Any]) -> list[list[Any]]:
    hops, sources = list(figures["sub_questions"]), list(figures["sources"])
    lines = [
        [
            name,
            *(own[key] for key in ("rows", "steps", "rows_with_image")),
            *(own["sub_questions"].get(hop, 0) for hop in hops),
            *(own["sources"].get(source, 0) for source in sources),
        ]
        for name, own in [*figures["sets"].items(), ("all", figures)]
    ]
    asked = (f"with {hop} sub-question{'' if hop == '1' else 's'}" for hop in hops)
    return [["set", "rows", "steps", "with image", *asked, *(f"asked of {source}" for source in sources)], *lines]


def _lengths_table(lengths: Mapping[str, Any]) -> list[list[Any]]:
    titles = ["min", "median", "p90", "max", "mean", "over the limit"]
    lines = [
        [kind, part, unit, *(spread.get(title.replace(" ", "_"), "") for title in titles)]
        for unit, kinds in lengths.items()
        for kind, parts in kinds.items()
        for part, spread in parts.items()
    ]
    return [["step", "of its", "in", *titles], *lines]


def _leakage_table(leakage: Mapping[str, Mapping[str, int] | None]) -> list[list[Any]]:
    keys = ["questions", "images", "both"]
    lines = [[name, *(found[key] if found else "not checked" for key in keys)] for name, found in leakage.items()]
    return [["set", "same question", "same image", "same question and image"], *lines]


def _table(lines: Sequence[Sequence[Any]]) -> Iterator[str]:
    for line in (lines[0], ["---"] * len(lines[0]), *lines[1:]):
        yield "| " + " | ".join(map(_cell, line)) + " |"


def _cell(value: Any) -> str:
    """The value on one line, with what would end a cell or open a tag escaped."""
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return html.escape(" ".join(text.split()), quote=False).replace("|", "\\|")


def _counts(rows: Sequence[Row]) -> dict[str, Any]:
    asked = [[route for route in routes_of(row) if not route.stops] for row in rows]
    hops = Counter(map(len, asked))
    return {
        "rows": len(rows),
        "steps": sum(len(row["steps"]) for row in rows),
        "rows_with_image": sum(bool(row["images"]) for row in rows),
        "sub_questions": {str(hop): hops[hop] for hop in sorted(hops)},
        "sources": _by_count(Counter(route.name or UNREADABLE for routes in asked for route in routes)),
    }


def _route_text(row: Row) -> str:
    """The retrievers asked, in order, `none` at the end where the row says so."""
    return ", ".join(route.name or UNREADABLE for route in routes_of(row)) or NONE


def _by_count(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _lengths(places: Sequence[Place], length: Callable[[str], int], limits: Mapping[str, int]) -> dict[str, Any]:
    """By kind of step: of the user text, of the whole prompt, and of the target."""
    found: dict[str, Any] = {}
    for kind in (Kind.ROUTE, Kind.ANSWER, Kind.FINAL):
        steps = [place.step for place in places if place.kind is kind]
        texts = {
            "user text": [step["problem"] for step in steps],
            "prompt": [f"{step['system']}\n{step['problem']}" for step in steps],
            "target": [target_of(step) for step in steps],
        }
        if steps:
            found[kind] = {part: _spread(list(map(length, own)), limits.get(part)) for part, own in texts.items()}
    return found


def _spread(values: Sequence[int], limit: int | None) -> dict[str, float]:
    ordered = sorted(values)
    over = {} if limit is None else {"over_the_limit": sum(value > limit for value in values)}
    return {
        "n": len(values),
        "min": ordered[0],
        "median": numbers.median(ordered),
        "p90": ordered[len(ordered) * 9 // 10],
        "max": ordered[-1],
        "mean": round(numbers.fmean(ordered), 1),
        **over,
    }


def _duplicates(rows: Sequence[Row], places: Sequence[Place]) -> dict[str, int]:
    """How many come again after the first: prompts with their images, and questions with theirs."""
    steps = [place for place in places if place.kind in (Kind.ROUTE, Kind.ANSWER, Kind.FINAL)]
    prompts = {(place.step["system"], place.step["problem"], *place.row["images"]) for place in steps}
    questions = {(normalised(origin_question(row)), *row["images"]) for row in rows}
    return {"prompts": len(steps) - len(prompts), "questions": len(rows) - len(questions)}
