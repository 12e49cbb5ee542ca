"""Names swapped in step rows: a model trained on few countries has to copy a name, not to know it.

In a swapped row every known name stands replaced, in the prompt and in the completion alike, by one made up of
other proper names, so the row stays right while its names are new.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

FORMS: tuple[str, ...] = (
    "{a}",
    "{a}",
    "{a}",
    "New {a}",
    "North {a}",
    "Saint {a}",
    "{a} Islands",
    "{a} and {b}",
    "{a} {b}",
    "Upper {a}",
)
PLACE_FORMS: tuple[str, ...] = (
    "{a}",
    "the {a} coast",
    "Western {a}",
    "the {a}",
    "Lower {a}",
    "{a} and {b}",
    "the {a} islands",
)


@dataclass(frozen=True, slots=True)
class Swapper:
    """Replaces `countries` and `regions` by names made from `pool`; letter case is kept as it was found."""

    countries: Sequence[str]
    regions: Sequence[str]
    pool: Sequence[str]

    def swapped(self, row: Mapping[str, Any], rng: random.Random) -> dict[str, Any]:
        """The row with its names replaced; one name has one replacement throughout."""
        new: dict[str, str] = {}
        forms = {name.lower(): FORMS for name in self.countries}
        forms |= {name.lower(): PLACE_FORMS for name in self.regions}

        def replacement(found: re.Match[str]) -> str:
            name = found[0].lower()
            while name not in new:
                a, b = rng.sample(list(self.pool), 2)
                made = rng.choice(forms[name]).format(a=a, b=b)
                if made not in new.values():
                    new[name] = made
            return new[name].lower() if found[0].islower() else new[name]

        def replaced(text: str) -> str:
            return self._pattern().sub(replacement, text)

        messages = [
            {**message, "content": replaced(message["content"])} if message["role"] == "user" else message
            for message in row["messages"]
        ]
        return {**row, "messages": messages, "completion": replaced(row["completion"])}

    def _pattern(self) -> re.Pattern[str]:
        """Any known name as a whole word; of two that begin alike the longer one."""
        names = sorted([*self.countries, *self.regions], key=len, reverse=True)
        return re.compile(rf"\b(?:{'|'.join(map(re.escape, names))})\b", re.IGNORECASE)
