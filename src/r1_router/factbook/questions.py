"""Questions of the Factbook world, each a draw from one split's countries and wordings."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from r1_router.factbook.corpus import Topic
from r1_router.factbook.hops import (
    Hop,
    Ref,
    World,
    fact_hop,
    figure_hop,
    flag_hop,
    holder_hop,
    partner_hop,
    superlative_hop,
)
from r1_router.factbook.wordings import MORE
from r1_router.types import IMAGE, NONE

HELD_OUT_SHARE = 0.6  # how often one wording of a held-out question comes from the held-out list
MORE_SHARE = 0.6  # how often a training question's wording comes from the list that only training has
PARTNER_CAP = 8  # draws that may lead through one export partner, per hop count and wording, in 300 questions
CLEAR_GAP = 0.03  # relative difference two compared figures have at least


class Unfit(Exception):
    """The draw gives no question (a country without that figure, a tie): draw again."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A question before it gets its id and picture; `closing` is the final answer's reasoning."""

    kind: str
    text: str
    hops: tuple[Hop, ...]
    answers: tuple[str, ...]
    closing: str
    flag_country: str = ""

    def trajectory(self) -> list[dict[str, Any]]:
        """The gold steps: thought, sub-question, source, answer, where it stands; a closing `none` step."""
        steps: list[dict[str, Any]] = []
        for index, hop in enumerate(self.hops):
            steps.append(
                {
                    "thought": self._thought(index),
                    "query": hop.query,
                    "source": hop.source.name,
                    "gold_ids": list(hop.gold_ids),
                    "answer": hop.answers[0],
                    "how": hop.how,
                }
            )
        return [*steps, {"thought": self._thought(len(self.hops)), "query": NONE, "source": NONE}]

    def _thought(self, index: int) -> str:
        known = ", ".join(hop.answers[0].lower() for hop in self.hops[:index]) or "nothing"
        left = [hop.label if hop.after < index else hop.vague for hop in self.hops[index:]]
        return f"known: {known}. missing: {', '.join(left) or 'nothing'}."


@dataclass
class Writer:
    """Draws questions of one split; `held_out` takes wordings that training never shows, where there are any."""

    world: World
    split: str
    rng: random.Random
    held_out: bool = False
    partner_cap: int = PARTNER_CAP
    unseen: bool = field(default=False, init=False)
    through: str = field(default="", init=False)
    partners_drawn: Counter[str] = field(default_factory=Counter, init=False)

    def pick(self, lists: Any) -> str:
        """One wording; notes in `unseen` that a held-out one was used."""
        if self.held_out and lists.get(self.split) and self.rng.random() < HELD_OUT_SHARE:
            self.unseen = True
            return self.rng.choice(lists[self.split])
        if self.split == "train" and lists.get(MORE) and self.rng.random() < MORE_SHARE:
            return self.rng.choice(lists[MORE])
        return self.rng.choice(lists["train"])

    # -- phrases for a country

    def plain(self) -> Ref:
        country = self.rng.choice(self.world.countries)
        return Ref(country.name, country)

    def flag(self) -> Ref:
        country = self._choose([c for c in self.world.countries if c.code in self.world.flags])
        return Ref(self.pick(self.world.words["flag_country"]), country, (flag_hop(self.world, country),))

    def holder(self) -> Ref:
        key = self.rng.choice([key for key, values in self.world.holders.items() if values])
        relation, values = self.world.relations[key], self.world.holders[key]
        value = self.rng.choice(sorted(values))
        country = values[value]
        surface = self.pick(relation.holder).format(v=value)
        return Ref(surface, country, (holder_hop(self.world, relation, value, country),))

    def leader(self) -> Ref:
        table, high = self._table()
        words = self.world.words["superlative_country"]
        hop = superlative_hop(self.world, table, high)
        return Ref(self._superlative(words, table, high), table.rows[0 if high else -1][0], (hop,))

    def partner(self, ref: Ref) -> Ref:
        partner = self.world.partners.get(ref.country.code)
        if partner is None or self.partners_drawn[partner.code] >= self.partner_cap:
            raise Unfit
        self.through = partner.code
        noun = self.pick(self.world.relations["export_partner"].nouns)
        hops = (*ref.hops, partner_hop(self.world, ref))
        return Ref(f"the {noun} of {ref.surface}", partner, hops)

    # -- what is asked about it

    def fact(self, ref: Ref) -> Draft:
        keys = [key for key in self.world.relations if (ref.country.code, key) in self.world.facts]
        relation = self.world.relations[self.rng.choice([k for k in keys if k != "export_partner"] or keys)]
        framed = relation.nouns and self.rng.random() < 0.6
        if framed:
            text = self.pick(self.world.words["relation_frames"]).format(n=self.pick(relation.nouns), x=ref.surface)
        else:
            text = self.pick(relation.forms).format(x=ref.surface)
        hops = (*ref.hops, fact_hop(self.world, relation, ref))
        return self._draft("fact", text, hops, hops[-1].answers, f"the answer is {_low(hops[-1])}.")

    def figure(self, ref: Ref) -> Draft:
        topic, year = self._figure_of(ref)
        frame = self.pick({k: v for k, v in self.world.words["topic_frames"].items() if k != "ask"})
        text = frame.format(n=self.pick(topic.nouns), x=ref.surface, y=year)
        hops = (*ref.hops, figure_hop(self.world, topic, year, ref))
        return self._draft("figure", text, hops, hops[-1].answers, f"the answer is {_low(hops[-1])}.")

    def identify(self) -> Draft:
        ref = self.flag()
        text = self.pick(self.world.words["identify_flag"]["forms"])
        return self._draft("identify", text, ref.hops, ref.hops[0].answers, f"the answer is {_low(ref.hops[0])}.")

    def reverse(self) -> Draft:
        ref = self.holder()
        text = f"What is {ref.surface}?" if self.rng.random() < 0.5 else f"Name {ref.surface}."
        return self._draft("reverse", text, ref.hops, ref.hops[0].answers, f"the answer is {_low(ref.hops[0])}.")

    def superlative(self) -> Draft:
        table, high = self._table()
        hop = superlative_hop(self.world, table, high)
        text = self._superlative(self.world.words["superlative"]["forms"], table, high)
        return self._draft("superlative", text, (hop,), hop.answers, f"the answer is {_low(hop)}.")

    def compare(self, a: Ref, b: Ref) -> Draft:
        topic, year, hops = self._pair(a, b)
        high = self.rng.random() < 0.6
        frames = self.world.words["compare_frames" if high else "compare_low_frames"]
        text = self.pick(frames).format(n=self.pick(topic.nouns), y=year, a=a.surface, b=b.surface)
        first_wins = self._number(a, topic, year) > self._number(b, topic, year)
        winner = hops[: len(a.hops) + 1] if first_wins == high else hops[len(a.hops) + 1 :]
        country = a.country if first_wins == high else b.country
        word = "more" if self._number(a, topic, year) > self._number(b, topic, year) else "less"
        values = [hops[len(a.hops)], hops[-1]]
        names = winner[0].answers if len(winner) > 1 else (country.name,)
        closing = f"{a.country.name} {_low(values[0])} is {word} than {b.country.name} {_low(values[1])}.".lower()
        return self._draft("compare", text, hops, names, closing)

    def yes_no(self, a: Ref, b: Ref) -> Draft:
        topic, year, hops = self._pair(a, b)
        text = self.pick(self.world.words["yesno_frames"]).format(
            n=self.pick(topic.nouns), y=year, a=a.surface, b=b.surface
        )
        higher = self._number(a, topic, year) > self._number(b, topic, year)
        word = "more" if higher else "less"
        values = [hops[len(a.hops)], hops[-1]]
        closing = f"{a.country.name} {_low(values[0])} is {word} than {b.country.name} {_low(values[1])}.".lower()
        return self._draft("yes_no", text, hops, ("yes" if higher else "no",), closing)

    def earlier(self, a: Ref, b: Ref) -> Draft:
        years = [self.world.facts.get((ref.country.code, "independence")) for ref in (a, b)]
        if a.country == b.country or not years[0] or not years[1] or years[0][0] == years[1][0]:
            raise Unfit
        relation = self.world.relations["independence"]
        hops = (*a.hops, fact_hop(self.world, relation, a), *_shift((*b.hops, fact_hop(self.world, relation, b)), a))
        text = self.pick(self.world.words["earlier_frames"]).format(a=a.surface, b=b.surface)
        first = int(years[0][0]) < int(years[1][0])
        closing = f"{a.country.name} {years[0][0]} is {'before' if first else 'after'} {b.country.name} {years[1][0]}."
        return self._draft("earlier", text, hops, ((a if first else b).country.name,), closing.lower())

    # -- parts

    def _pair(self, a: Ref, b: Ref) -> tuple[Topic, int, tuple[Hop, ...]]:
        topic, year = self._figure_of(a, comparable=True)
        if a.country == b.country or (b.country.code, topic.key, year) not in self.world.rows:
            raise Unfit
        one, two = self._number(a, topic, year), self._number(b, topic, year)
        if abs(one - two) <= CLEAR_GAP * max(abs(one), abs(two)):
            raise Unfit
        second = (*b.hops, figure_hop(self.world, topic, year, b))
        return topic, year, (*a.hops, figure_hop(self.world, topic, year, a), *_shift(second, a))

    def _number(self, ref: Ref, topic: Topic, year: int) -> float:
        return self.world.figures[ref.country.code, topic.key][year].number

    def _figure_of(self, ref: Ref, *, comparable: bool = False) -> tuple[Topic, int]:
        topics = [t for t in self.world.topics.values() if t.compare or not comparable]
        topic = self.rng.choice(topics)
        figures = self.world.figures.get((ref.country.code, topic.key), {})
        years = [year for year in figures if (ref.country.code, topic.key, year) in self.world.rows]
        return topic, self._choose(years)

    def _table(self) -> tuple[Any, bool]:
        topic = self.rng.choice(list(self.world.topics))
        table = self._choose([t for t in self.world.tables if t.topic.key == topic])
        high = self.rng.random() < 0.6
        pair = table.rows[:2] if high else table.rows[-2:]
        if pair[0][1].number == pair[1][1].number:
            raise Unfit
        return table, high

    def _superlative(self, lists: Any, table: Any, high: bool) -> str:
        word = self.pick(self.world.words["superlative"]["high" if high else "low"])
        noun = self.pick(table.topic.nouns)
        return self.pick(lists).format(r=table.region, s=word, n=noun, y=table.year)

    def _choose(self, items: Sequence[Any]) -> Any:
        if not items:
            raise Unfit
        return self.rng.choice(items)

    def _draft(self, kind: str, text: str, hops: tuple[Hop, ...], answers: tuple[str, ...], closing: str) -> Draft:
        flags = [hop.gold_ids[0] for hop in hops if hop.source is IMAGE]
        return Draft(kind, text[0].upper() + text[1:], hops, answers, closing, flags[0] if flags else "")


def _low(hop: Hop) -> str:
    return hop.answers[0].lower()


def _shift(hops: tuple[Hop, ...], a: Ref) -> tuple[Hop, ...]:
    return tuple(hop.shifted(len(a.hops) + 1) for hop in hops)
