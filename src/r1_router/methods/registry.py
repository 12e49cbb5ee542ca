"""Every method by the name it has on the command line and in result files."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from r1_router.errors import ConfigError
from r1_router.methods.adaptive import adaptive
from r1_router.methods.cogplanner import cogplanner
from r1_router.methods.cot import cot
from r1_router.methods.direct import direct
from r1_router.methods.ircot import ircot
from r1_router.methods.iter_retgen import iter_retgen
from r1_router.methods.omnisearch import omnisearch
from r1_router.methods.rag import rag
from r1_router.methods.reroute import oracle_route, random_route
from r1_router.methods.router import routed
from r1_router.methods.search_o1 import search_o1
from r1_router.methods.self_ask import self_ask
from r1_router.methods.work import Settings
from r1_router.types import IMAGE, TABLE, TEXT, Method

METHODS: dict[str, Callable[[Settings], Method]] = {
    "r1-router": routed,
    "direct": direct,
    "cot": cot,
    "rag-text": partial(rag, tag=TEXT.tag),
    "rag-image": partial(rag, tag=IMAGE.tag),
    "rag-table": partial(rag, tag=TABLE.tag),
    "rag": rag,
    "ircot": ircot,
    "iter-retgen": iter_retgen,
    "self-ask": self_ask,
    "search-o1": search_o1,
    "cogplanner": cogplanner,
    "omnisearch": omnisearch,
    "adaptive": adaptive,
    "random-route": random_route,
    "oracle-route": oracle_route,
}


def make_method(name: str, settings: Settings) -> Method:
    """The method `name`, working as `settings` say; raises ConfigError naming the methods there are."""
    if name not in METHODS:
        raise ConfigError(f"--method: no method is named {name!r}; there are {', '.join(METHODS)}.")
    return METHODS[name](settings)
