"""Kinds of questions by number of hops, and drawing so many of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import cycle

from r1_router.factbook.questions import Draft, Unfit, Writer

MAX_TRIES = 200

Recipe = Callable[[Writer], Draft]
# Kinds by number of hops; a kind listed twice is drawn twice as often.
RECIPES: dict[int, tuple[Recipe, ...]] = {
    1: (
        lambda w: w.fact(w.plain()),
        lambda w: w.fact(w.plain()),
        lambda w: w.figure(w.plain()),
        lambda w: w.identify(),
        lambda w: w.reverse(),
        lambda w: w.superlative(),
    ),
    2: (
        lambda w: w.fact(w.flag()),
        lambda w: w.fact(w.flag()),
        lambda w: w.figure(w.flag()),
        lambda w: w.figure(w.flag()),
        lambda w: w.figure(w.holder()),
        lambda w: w.fact(w.holder()),
        lambda w: w.fact(w.leader()),
        lambda w: w.figure(w.leader()),
        lambda w: w.figure(w.partner(w.plain())),
        lambda w: w.compare(w.plain(), w.plain()),
        lambda w: w.yes_no(w.plain(), w.plain()),
        lambda w: w.earlier(w.plain(), w.plain()),
    ),
    3: (
        lambda w: w.compare(w.flag(), w.plain()),
        lambda w: w.yes_no(w.flag(), w.plain()),
        lambda w: w.earlier(w.flag(), w.plain()),
        lambda w: w.compare(w.holder(), w.plain()),
        lambda w: w.yes_no(w.leader(), w.plain()),
        lambda w: w.figure(w.partner(w.flag())),
        lambda w: w.figure(w.partner(w.flag())),
        lambda w: w.fact(w.partner(w.flag())),
        lambda w: w.fact(w.partner(w.holder())),
        lambda w: w.figure(w.partner(w.leader())),
    ),
}


def draw(writer: Writer, hops: int, count: int, taken: set[str]) -> Iterator[tuple[Draft, bool]]:
    """`count` new questions of `hops` hops, with whether each uses a held-out wording; kinds take turns."""
    recipes = cycle(RECIPES[hops])
    found = 0
    while found < count:
        draft = _one(writer, next(recipes), taken)
        if draft:
            found += 1
            yield draft, writer.unseen


def _one(writer: Writer, recipe: Recipe, taken: set[str]) -> Draft | None:
    """One new question, or None where the split holds no more of the kind."""
    for _ in range(MAX_TRIES):
        writer.unseen, writer.through = False, ""
        try:
            draft = recipe(writer)
        except Unfit:
            continue
        key = f"{draft.text}|{draft.flag_country}"
        if key not in taken and draft.answers and writer.unseen == writer.held_out:
            taken.add(key)
            writer.partners_drawn[writer.through] += 1
            return draft
    return None
