"""A retrieval server under load, against the same searches in one process: waiting times, rate, and that none is lost.

    python benchmarks/service.py [--config configs/factbook.yaml] [--source NAME] [--clients 64] [--rounds 10]

Each client asks one gold sub-question after the other and waits for each answer. `served, one client for all` is how a
run asks: the questions in flight share one RemoteBase. In `served, a client each` every client has a connection of its
own and sends one query a request. Every answer must have the ids that the search in process gives. Server and clients
share this machine's cores.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from rich.console import Console
from rich.table import Table

from r1_router.bases import KnowledgeBases
from r1_router.config import DEFAULT_CONFIG, Config, load_config
from r1_router.deployment import Deployment
from r1_router.llm.server_process import ServerProcess
from r1_router.retrieval.remote import RemoteBase
from r1_router.types import Query, Source

START_SECONDS = 120.0
GOAL = 1.3
"""Times the median of the search in process that a served one may take."""
Search = Callable[[int, Query], Awaitable[list[str]]]
"""Client number and query to passage ids."""


@dataclass(frozen=True, slots=True)
class Load:
    """What one way of searching came to."""

    name: str
    seconds: list[float]
    wall: float
    answers: list[list[str]]

    def percentile(self, share: float) -> float:
        """Milliseconds that so many of a hundred searches took at most."""
        return float(np.percentile(self.seconds, share)) * 1000


async def load(name: str, search: Search, queries: Sequence[Query], clients: int) -> Load:
    """Client n asks queries n, n + clients, n + 2 clients, ..; the first round warms up and is not counted."""
    answers: list[list[str]] = [[]] * len(queries)
    seconds: list[float] = []
    await asyncio.gather(*(search(n, queries[n]) for n in range(clients)))

    async def client(n: int) -> None:
        for at in range(n, len(queries), clients):
            started = time.perf_counter()
            answers[at] = await search(n, queries[at])
            seconds.append(time.perf_counter() - started)

    started = time.perf_counter()
    await asyncio.gather(*map(client, range(clients)))
    return Load(name, seconds, time.perf_counter() - started, answers)


async def in_process(base: Any, queries: Sequence[Query], clients: int, k: int) -> Load:
    async def search(client: int, query: Query) -> list[str]:
        return [passage.id for passage in await base.search(query, k)]

    return await load("in process", search, queries, clients)


async def shared_client(url: str, source: Source, queries: Sequence[Query], clients: int, k: int) -> Load:
    base = RemoteBase(url, source)

    async def search(client: int, query: Query) -> list[str]:
        return [passage.id for passage in await base.search(query, k)]

    return await load("served, one client for all", search, queries, clients)


async def separate_clients(url: str, source: Source, queries: Sequence[Query], clients: int, k: int) -> Load:
    async with AsyncExitStack() as stack:
        opened = [await stack.enter_async_context(httpx.AsyncClient(timeout=60)) for _ in range(clients)]

        async def search(client: int, query: Query) -> list[str]:
            body = {"source": source.name, "queries": [{"text": query.text}], "k": k}
            response = (await opened[client].post(f"{url}/search", json=body)).raise_for_status()
            return [row["id"] for row in response.json()["results"][0]]

        return await load("served, a client each", search, queries, clients)


def sub_questions(config: Config, benchmark: str, source: str, count: int) -> list[Query]:
    """That many gold sub-questions of the source, from the start again where there are fewer."""
    questions = Deployment(config).questions(benchmark)
    found = [hop["query"] for question in questions for hop in question.extra["hops"] if hop["source"] == source]
    return [Query(found[n % len(found)]) for n in range(count)]


def table(loads: Sequence[Load]) -> Table:
    first = loads[0]
    shown = Table("search", "p50 ms", "p99 ms", "queries/s", "lost", "other answers", "p50 / in process")
    for one in loads:
        lost = len(one.answers) - len(one.seconds)
        other = sum(here != there for here, there in zip(one.answers, first.answers, strict=True))
        figures = (f"{one.percentile(50):.0f}", f"{one.percentile(99):.0f}", f"{len(one.seconds) / one.wall:.0f}")
        shown.add_row(one.name, *figures, str(lost), str(other), f"{one.percentile(50) / first.percentile(50):.2f}")
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, default=DEFAULT_CONFIG)
    parser.add_argument("--benchmark", default="factbook")
    parser.add_argument("--source", default="text retriever")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("-k", type=int, default=10)
    args = parser.parse_args()
    config = load_config(args.config)
    config = replace(config, sources=tuple(one for one in config.sources if one.name == args.source))
    ((source, base),) = KnowledgeBases(config).load().items()
    queries = sub_questions(config, args.benchmark, args.source, args.clients * args.rounds)
    command = [sys.executable, "-m", "r1_router", "serve-retriever", "--config", str(args.config)]
    with tempfile.TemporaryDirectory() as logs:
        server = ServerProcess([*command, "--source", args.source], Path(logs) / "server.log", os.environ)
        server.start()
        try:
            server.wait_ready(START_SECONDS)
            ways = (shared_client, separate_clients)
            loads = [asyncio.run(in_process(base, queries, args.clients, args.k))]
            loads += [asyncio.run(way(server.url, source, queries, args.clients, args.k)) for way in ways]
        finally:
            server.stop()
    Console(width=130).print(table(loads), f"goal: p50 under {GOAL} times the search in process")


if __name__ == "__main__":
    main()
