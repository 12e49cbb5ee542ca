"""The few templates that are part of a sentence, as the words they show; all others show nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

_BAR = re.compile(r"\|(?![^][]*\]\])")
_NAMED = re.compile(r"\s*([\w -]+?)\s*=\s*(.*)\Z", re.DOTALL)
_NUMBER = re.compile(r"[-+\N{MINUS SIGN}]?[\d.,/\N{FRACTION SLASH}+]+\Z")
_BETWEEN = frozenset({"-", "\N{EN DASH}", "to", "and", "or", "by", "x", "*", "+/-", "±", "and(-)", "to(-)"})
Arguments = Mapping[str, str]
"""A template's arguments by name; those without one by their number, from "1"."""


def rendered(template: re.Match[str]) -> str:
    """What the template shows; its group 1 is all between the braces, with inner templates shown already."""
    inside = template[1]
    bar = inside.find("|")
    name = (inside if bar < 0 else inside[:bar]).strip().lower().replace("_", " ")
    show = _SHOWN.get(name) or (_first if name.startswith(_FIRST_BY_PREFIX) else None)
    return show(_arguments(inside[bar + 1 :]) if bar >= 0 else {}) if show else ""


def _arguments(text: str) -> Arguments:
    found: dict[str, str] = {}
    number = 0
    for argument in _BAR.split(text):
        if named := _NAMED.match(argument):
            found[named[1]] = named[2].strip()
        else:
            number += 1
            found[str(number)] = argument.strip()
    return found


def _argument(*names: str) -> Callable[[Arguments], str]:
    """The first of these arguments that says something."""
    return lambda arguments: next((arguments[name] for name in names if arguments.get(name)), "")


def _always(text: str) -> Callable[[Arguments], str]:
    return lambda arguments: text


def _joined(between: str, before: str = "") -> Callable[[Arguments], str]:
    """All numbered arguments in a row."""
    return lambda arguments: before + between.join(value for name, value in arguments.items() if name.isdigit())


def _measure(arguments: Arguments) -> str:
    """`5|to|10|km|mi`: the quantity as it was given, without its conversion."""
    words: list[str] = []
    for name, value in arguments.items():
        if name.isdigit():
            words.append(value)
            if not _NUMBER.match(value) and value not in _BETWEEN:
                break
    return " ".join(words)


_first = _argument("1", "text", "quote")
_FIRST_ONLY = (
    "abbr, as written, big, block quote, blockquote, bold, bquote, cquote, em, flag, flagcountry, flagu, formatnum, "
    "ill, interlanguage link, italic, linktext, math, mvar, nihongo, nobr, not a typo, nowrap, poemquote, quotation, "
    "quote, quote box, sc, small, smallcaps, smaller, strong, sub, sup, tooltip, val, var"
)
_FIRST_BY_PREFIX = ("lang-", "lang ")
_SHOWN: dict[str, Callable[[Arguments], str]] = {
    **dict.fromkeys(_FIRST_ONLY.split(", "), _first),
    **dict.fromkeys(("lang", "transliteration", "transl"), _argument("3", "2")),
    **dict.fromkeys(("convert", "cvt"), _measure),
    **dict.fromkeys(("circa", "c.", "c"), _joined("\N{EN DASH}", "c. ")),
    "as of": _joined(" ", "As of "),
    "sortname": lambda arguments: f"{arguments.get('1', '')} {arguments.get('2', '')}".strip(),
    **dict.fromkeys(("frac", "fraction"), _joined("/")),
    "hms": _joined(" ", "HMS "),
    "uss": _joined(" ", "USS "),
    "us$": _joined("", "US$"),
    "ship": _joined(" "),
    **dict.fromkeys(("ndash", "spaced ndash", "spnd", "snd", "dash"), _always(" \N{EN DASH} ")),
    **dict.fromkeys(("mdash", "em dash", "spaced mdash"), _always(" — ")),
    **dict.fromkeys(("nbsp", "space", "·", "•", "dot"), _always(" ")),
    "'": _always("'"),
    "'s": _always("'s"),
    "=": _always("="),
}
