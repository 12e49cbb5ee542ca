"""The routed loop with its routing taken away: sources drawn at random, or the gold ones.

Between the two lies what routing is worth: the sub-questions stay the model's own.
"""

from __future__ import annotations

import random
from dataclasses import replace

from r1_router.errors import DataError
from r1_router.hops import due
from r1_router.methods.blocks import GIVEN_UP
from r1_router.methods.router import routed
from r1_router.methods.work import Settings, Work
from r1_router.types import NONE, Method, Plan


def random_route(settings: Settings) -> Method:
    """The routed loop where each sub-question goes to a source drawn at random, the same in every run of one seed."""
    return routed(settings, _random)


def oracle_route(settings: Settings) -> Method:
    """The routed loop where each sub-question goes to the gold hop's source, and it stops when the hops are used up.

    A question without `hops` in its row fails with a DataError.
    """
    return routed(settings, _oracle)


def _random(work: Work, n: int, plan: Plan) -> Plan:
    if plan.stops:
        return plan
    rng = random.Random(f"{work.settings.sampling.seed} {work.question.id} {n}")
    return replace(plan, sources=(rng.choice(tuple(work.retrievers)),))


def _oracle(work: Work, n: int, plan: Plan) -> Plan:
    names = due(work.question)
    if not names:
        raise DataError(f"oracle-route needs gold hops, and question {work.question.id} has none: use r1-router.")
    name = names[n] if n < len(names) else NONE
    if name == NONE or plan.stops:
        return GIVEN_UP
    return replace(plan, sources=tuple(source for source in work.retrievers if source.name == name))
