"""The client of a retrieval server: same answers, restarts ridden out, a base that is down flagged."""

import asyncio
import socket
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from retrieval_configs import config_with
from retrieval_server import LiveServer
from retrieval_worlds import TEXTS, draw_flag, passage_rows, write_passages

from r1_router.bases import KnowledgeBases
from r1_router.config import load_config
from r1_router.errors import DataError, KnowledgeBaseError
from r1_router.llm.scripted import ScriptedLLM
from r1_router.methods import Settings, make_method
from r1_router.prompts import load_prompts
from r1_router.retrieval.build import build
from r1_router.retrieval.encoders import SentenceEncoder
from r1_router.retrieval.knowledge_base import KnowledgeBase, load
from r1_router.retrieval.remote import RemoteBase
from r1_router.types import TABLE, TEXT, Query, Question, Trajectory

CLIENTS = 64
WORDS = [f"{text} {n}" for n in range(12) for text in TEXTS]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory, encoder: SentenceEncoder) -> KnowledgeBase:
    world = tmp_path_factory.mktemp("world")
    folder = build(write_passages(world, passage_rows(WORDS)), world / "base", TEXT, encoder).folder
    return load(folder, TEXT, encoder)


@pytest.fixture
def server(base: KnowledgeBase) -> Iterator[LiveServer]:
    pytest.importorskip("fastapi", reason="the extra `serve` is not installed")
    pytest.importorskip("uvicorn", reason="the extra `serve` is not installed")
    from r1_router.retrieval.service import Served, make_app

    live = LiveServer(make_app([Served(TEXT, base, [0.0, "abc"])]))
    yield live
    live.stop()


def remote(url: str, **settings: Any) -> RemoteBase:
    return RemoteBase(url, TEXT, **{"first_wait": 0.05, "timeout": 5.0, **settings})


def free_url() -> str:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


def test_the_same_passages_as_in_process(server: LiveServer, base: KnowledgeBase) -> None:
    queries = [Query(text) for text in WORDS]
    near, far = base.search_many(queries, 10), remote(server.url).search_many(queries, 10)
    assert [[p.id for p in found] for found in far] == [[p.id for p in found] for found in near]
    assert far[0][0].score == pytest.approx(near[0][0].score, abs=1e-5)
    assert far[0][0].source == TEXT and far[0][0].text == near[0][0].text
    assert len(remote(server.url)) == len(base)


def test_a_source_that_is_not_served_is_told(server: LiveServer) -> None:
    other = RemoteBase(server.url, TABLE)
    for call in (lambda: other.search_many([Query("a")], 1), other.about):
        with pytest.raises(KnowledgeBaseError, match="text retriever"):
            call()


def test_a_refused_query_fails_alone(server: LiveServer, tmp_path: Path) -> None:
    draw_flag(1).save(tmp_path / "flag.png")
    (tmp_path / "torn.png").write_bytes((tmp_path / "flag.png").read_bytes()[:20])
    asked = [
        Query("alpha", str(tmp_path / "flag.png")),
        Query("alpha", str(tmp_path / "torn.png")),
        Query("alpha", str(tmp_path / "missing.png")),
        Query("a" * 50_000),
        Query("alpha"),
    ]

    async def search() -> list[Any]:
        client = remote(server.url)
        return await asyncio.gather(*(client.search(query, 3) for query in asked), return_exceptions=True)

    found = asyncio.run(search())
    assert [isinstance(one, DataError) for one in found] == [False, True, True, True, False]
    assert "50000 characters" in str(found[3])


def test_a_restart_in_the_middle_costs_no_answer(server: LiveServer) -> None:
    client = remote(server.url, tries=8)

    async def search() -> list[Any]:
        async def worker(n: int) -> list[str]:
            return [(await client.search(Query(WORDS[(n + at) % len(WORDS)]), 1))[0].id for at in range(30)]

        def restart() -> None:
            time.sleep(0.1)
            server.stop()
            time.sleep(0.3)
            server.start()

        restarting = asyncio.create_task(asyncio.to_thread(restart))
        found = await asyncio.gather(*map(worker, range(16)))
        await restarting
        return found

    found = asyncio.run(search())
    assert found == [[f"p{(n + at) % len(WORDS)}" for at in range(30)] for n in range(16)]


def test_64_clients_lose_nothing_and_wait_little_longer_than_in_process(
    server: LiveServer, base: KnowledgeBase
) -> None:
    async def load_test(search: Callable[[int], Any], rounds: int = 6) -> list[float]:
        """Seconds of each search; every answer is checked."""

        async def client(n: int) -> list[float]:
            seconds = []
            for at in range(rounds):
                row, started = (7 * n + at) % len(WORDS), time.perf_counter()
                passages = await search(n)(Query(WORDS[row]), 10)
                seconds.append(time.perf_counter() - started)
                assert len(passages) == 10 and passages[0].id == f"p{row}"
            return seconds

        return [second for seconds in await asyncio.gather(*map(client, range(CLIENTS))) for second in seconds]

    shared = remote(server.url)
    near = asyncio.run(load_test(lambda n: base.search))
    far = asyncio.run(load_test(lambda n: shared.search))
    assert len(far) == len(near) == CLIENTS * 6
    metrics = httpx.get(f"{server.url}/metrics").text
    assert 'r1_router_requests_total{status="200"}' in metrics and "failures_total 0" in metrics
    # Loose, since the encoder of a test takes no time; benchmarks/service.py holds the real one to its goal.
    assert statistics.median(far) < 10 * statistics.median(near) + 0.05


def routed(client: RemoteBase) -> Trajectory:
    replies = [
        f"<think>t</think><sub-question>what is alpha</sub-question><ret>{TEXT.name}</ret>",
        "<think>t</think><answer>a river</answer>",
        "<think>t</think><sub-question>none</sub-question><ret>none</ret>",
        "<think>t</think><answer>river</answer>",
    ]
    method = make_method("r1-router", Settings(load_prompts("guided")))
    return asyncio.run(method(Question("q1", "What is alpha?"), ScriptedLLM(replies), {TEXT: client}))  # type: ignore[arg-type]


def test_a_question_goes_on_without_the_base_that_is_down_and_says_so() -> None:
    record = routed(remote(free_url(), tries=2)).to_json()
    assert record["llm_answer"]["answer"] == "river" and "error" not in record
    assert record["plan_0"][TEXT.tag] == []
    assert (record["usage"]["retrievals"], record["usage"]["unanswered"]) == (1, 1)
    assert Trajectory.from_json(record).usage.unanswered == 1


def test_an_answered_question_has_no_flag(server: LiveServer) -> None:
    record = routed(remote(server.url)).to_json()
    assert record["usage"]["unanswered"] == 0 and len(record["plan_0"][TEXT.tag]) == 10


def test_a_served_source_has_the_fingerprint_of_its_own_process(tmp_path: Path, server: LiveServer) -> None:
    bases = KnowledgeBases(load_config(config_with(tmp_path, url=server.url)))
    assert bases.digest() == {TEXT.name: ["facts", 0.0, "abc"]}
    assert bases.build() == {TEXT.name: len(WORDS)}
    (client,) = bases.load().values()
    assert asyncio.run(client.search(Query(WORDS[3]), 1))[0].id == "p3"
