"""Which passages belong to the countries that training may not see."""

from __future__ import annotations

from collections.abc import Callable

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
