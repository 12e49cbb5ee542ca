"""The parts a question is made of: hops with their gold passages, and phrases that stand for a country."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from r1_router.factbook.corpus import Cell, Table, Topic
from r1_router.factbook.relations import Relation
from r1_router.factbook.source import Country
from r1_router.types import IMAGE, TABLE, TEXT, Source


@dataclass(frozen=True, slots=True)
class Hop:
    """One gold step. `label` says what it finds, `vague` the same before its country is known; `how` is where
    the answer stands, with `{p}` for the passage's tag and number."""

    source: Source
    query: str
    answers: tuple[str, ...]
    gold_ids: tuple[str, ...]
    label: str
    how: str
    vague: str = ""
    after: int = -1  # the hop whose answer this one's query names, -1: none

    def shifted(self, by: int) -> Hop:
        """The same hop `by` places later in a chain."""
        return replace(self, after=self.after + by if self.after >= 0 else -1)


@dataclass(frozen=True, slots=True)
class Ref:
    """A phrase for a country and the hops that resolve it (none for a plain name)."""

    surface: str
    country: Country
    hops: tuple[Hop, ...] = ()


@dataclass(frozen=True, slots=True)
class World:
    """Everything questions are drawn from, for one split."""

    countries: Sequence[Country]
    facts: Mapping[tuple[str, str], tuple[str, ...]]  # (country code, relation key) -> accepted answers
    passages: Mapping[tuple[str, str], tuple[str, ...]]  # likewise -> gold passage ids
    holders: Mapping[str, Mapping[str, Country]]  # relation key -> value that only one country has -> country
    figures: Mapping[tuple[str, str], Mapping[int, Cell]]  # (country code, topic key) -> year -> cell
    rows: Mapping[tuple[str, str, int], tuple[str, ...]]  # (country code, topic key, year) -> gold table ids
    tables: Sequence[Table]
    flags: Mapping[str, str]  # country code -> image id, where the flag names one country
    partners: Mapping[str, Country]  # country code -> its main export partner, where in the same split
    relations: Mapping[str, Relation]
    topics: Mapping[str, Topic]
    words: Mapping[str, Any]


def country_answers(country: Country, long_name: Sequence[str] = ()) -> tuple[str, ...]:
    """Accepted forms of a country's name, the short one first."""
    return tuple(dict.fromkeys([country.name, *long_name]))


def flag_hop(world: World, country: Country) -> Hop:
    return Hop(
        IMAGE,
        world.words["identify_flag"]["ask"],
        _names(world, country),
        (world.flags[country.code],),
        "the country of the flag",
        "{p} is the nearest picture",
    )


def holder_hop(world: World, relation: Relation, value: str, country: Country) -> Hop:
    query = relation.reverse.format(v=value)
    return Hop(
        TEXT,
        query.lower(),
        _names(world, country),
        world.passages[country.code, relation.key],
        query.removesuffix("?").replace("which country has", "the country with").lower(),
        f"{{p}} is about {country.name}",
    )


def superlative_hop(world: World, table: Table, high: bool) -> Hop:
    country, _ = table.rows[0 if high else -1]
    word = "highest" if high else "lowest"
    query = world.words["superlative"]["ask"].format(r=table.region, s=word, n=table.topic.ask, y=table.year)
    return Hop(
        TABLE,
        query.lower(),
        _names(world, country),
        (table.id,),
        f"the country in {table.region} with the {word} {table.topic.ask} in {table.year}".lower(),
        f"{{p}} {'starts' if high else 'ends'} with {country.name}",
    )


def fact_hop(world: World, relation: Relation, ref: Ref) -> Hop:
    noun = relation.nouns["train"][0] if relation.nouns else relation.key.replace("_", " ")
    return Hop(
        TEXT,
        relation.ask.format(x=ref.country.name).lower(),
        world.facts[ref.country.code, relation.key],
        world.passages[ref.country.code, relation.key],
        f"the {noun} of {ref.country.name}".lower(),
        f"{{p}} tells it of {ref.country.name}",
        f"its {noun}".lower(),
        len(ref.hops) - 1,
    )


def figure_hop(world: World, topic: Topic, year: int, ref: Ref) -> Hop:
    cell = world.figures[ref.country.code, topic.key][year]
    query = world.words["topic_frames"]["ask"].format(n=topic.ask, x=ref.country.name, y=year)
    plain = cell.text.strip("%$")
    return Hop(
        TABLE,
        query.lower(),
        tuple(dict.fromkeys([cell.text, plain])),
        world.rows[ref.country.code, topic.key, year],
        f"the {topic.ask} of {ref.country.name} in {year}".lower(),
        f"{{p}} has {ref.country.name}: {cell.text}",
        f"its {topic.ask} in {year}",
        len(ref.hops) - 1,
    )


def partner_hop(world: World, ref: Ref) -> Hop:
    partner = world.partners[ref.country.code]
    hop = fact_hop(world, world.relations["export_partner"], ref)
    return replace(hop, answers=tuple(dict.fromkeys([hop.answers[0], *_names(world, partner)])))


def _names(world: World, country: Country) -> tuple[str, ...]:
    return country_answers(country, world.facts.get((country.code, "long_name"), ()))
