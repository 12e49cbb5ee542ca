"""Facts told in prose: how each relation's short answer is read out of its Factbook field."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from r1_router.factbook.source import Country, text_at

Answers = list[str]
MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"


@dataclass(frozen=True, slots=True)
class Relation:
    """One kind of fact; `ask` is the canonical sub-question, `reverse` the one from the value to the country."""

    key: str
    path: tuple[str, ...]
    ask: str
    nouns: Mapping[str, Sequence[str]]
    forms: Mapping[str, Sequence[str]]
    reverse: str = ""
    holder: Mapping[str, Sequence[str]] | None = None


def answers_of(country: Country, relation: Relation) -> Answers:
    """Accepted forms of the answer, the main one first; empty where the field gives no clear short answer."""
    text = text_at(country.fields, relation.path)
    if not text or text.lower() in ("none", "na", "n/a"):
        return []
    return READERS[relation.key](text)


def _first(pattern: str, *, most: int = 8) -> Callable[[str], Answers]:
    """A reader that takes the first group of `pattern`, refused when it has more than `most` words."""

    def read(text: str) -> Answers:
        found = re.match(pattern, text)
        answer = found[1].strip(" ,;") if found else ""
        return [answer] if answer and len(answer.split()) <= most else []

    return read


def _independence(text: str) -> Answers:
    found = re.match(rf"(\d{{1,2}} (?:{MONTHS}) (\d{{4}})) \(", text)
    return [found[2], found[1]] if found else []


def _anthem(text: str) -> Answers:
    found = re.match(r'^"([^"]+)"(?: \(([^)]+)\))?', text)
    return [part for part in (found[1].strip(" ,"), found[2]) if part] if found else []


def _currency(text: str) -> Answers:
    found = re.match(r"^(.+?) \(([A-Z]{3})\) per US dollar", text)
    return [found[1], found[2]] if found else []


def _alternatives(text: str) -> Answers:
    if "(" in text or ";" in text:
        return []
    return [part for part in re.split(r" or |, ", text) if part][:2]


def _single(text: str) -> Answers:
    return [text] if not re.search(r"[,;(]", text) and len(text.split()) <= 5 else []


def _colors(text: str) -> Answers:
    return [text] if not re.search(r"[;(:]", text) and 1 < len(text.split()) <= 5 else []


def _city(text: str) -> Answers:
    cities = re.findall(r"(\d[\d.,]*)( million)? ([^\d,(]+)", text)
    if not cities:
        return []
    sizes = [float(n.replace(",", "")) * (1e6 if m else 1) for n, m, _ in cities]
    name = cities[0][2].strip()
    return [name.title() if name.isupper() else name] if sizes[0] == max(sizes) else []


def _count(text: str) -> Answers:
    return [str(len(text.split(";")))] if " km" in text and "note" not in text else []


def _yes_no(text: str) -> Answers:
    return [text] if text in ("yes", "no") else []


READERS: dict[str, Callable[[str], Answers]] = {
    "capital": _first(r"^([^;(,]+?)(?: \(| *$)", most=4),
    "independence": _independence,
    "anthem": _anthem,
    "highest_point": _first(r"^(?!unnamed)([^\d;(]+?) [\d,.]+ m\b", most=6),
    "lowest_point": _first(r"^(?!unnamed)([^\d;(]+?) -?[\d,.]+ m\b", most=6),
    "government_type": _first(r"^([^;(,:\-]+?)(?: in name)?(?:[;(,]|$)", most=6),
    "adjective": _alternatives,
    "currency": _currency,
    "symbol": _single,
    "colors": _colors,
    "long_name": _first(r"^([^;(]+)", most=8),
    "legislature": _first(r"^([^;(,]+)", most=5),
    "holiday": _first(r"^([^;,(\d]+),", most=6),
    "main_export": _first(r"^([^,;(]+),", most=4),
    "export_partner": _first(r"^([^\d;]+?) [\d.]+%"),
    "main_crop": _first(r"^([^,;(]+),", most=3),
    "largest_city": _city,
    "neighbours": _count,
    "heritage": _first(r"^(\d+) \("),
    "chambers": _first(r"^(unicameral|bicameral)$"),
    "landlocked": lambda text: ["yes"] if "landlocked" in text else (["no"] if re.match(r"[\d,.]+ km", text) else []),
    "dual_citizenship": _yes_no,
}


def load_relations(raw: Mapping[str, Any]) -> list[Relation]:
    """The relations of `wordings.yaml`, in its order."""
    return [
        Relation(
            key,
            tuple(row["path"]),
            row["ask"],
            row.get("nouns", {}),
            row["forms"],
            row.get("reverse", ""),
            row.get("holder"),
        )
        for key, row in raw.items()
    ]
