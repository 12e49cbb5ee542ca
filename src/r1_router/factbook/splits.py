"""Which passages and names belong to which split."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from r1_router.factbook.corpus import slug
from r1_router.factbook.source import load_regions


def passages_outside(split: str) -> Callable[[str], bool]:
    """Whether a passage id is about a country or region of another split; world rankings belong to all."""
    of = load_regions().of
    codes = {code for code, (owner, _) in of.items() if owner != split}
    regions = {slug(region) for owner, region in of.values() if owner != split}

    def outside(ident: str) -> bool:
        base, *parts = ident.split("/")
        return parts[1] in regions if base == "table" else parts[0] in codes

    return outside


def country_names(texts: Iterable[Mapping[str, Any]], split: str) -> list[str]:
    """The names of a split's countries, as the titles of the text passages have them."""
    of = load_regions().of
    titles = {row["id"].split("/")[1]: row["title"].split(":")[0] for row in texts}
    return [title for code, title in titles.items() if of.get(code, ("", ""))[0] == split]


def region_names(split: str) -> list[str]:
    """The names of a split's regions."""
    return sorted({region for owner, region in load_regions().of.values() if owner == split})


PLACE_QUESTIONS = ("what is the capital of", "what is the largest urban area of", "what is the highest point of")


def place_names(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Cities and peaks that the gold answers of these questions name in at most three words, sorted."""
    hops = (hop for row in rows for hop in row["hops"] if hop["query"].startswith(PLACE_QUESTIONS))
    return sorted({hop["answer"] for hop in hops if len(hop["answer"].split()) <= 3})
