"""The retrieval server over real HTTP: its answers, its counts, its bounds, and what it says to broken requests."""

import contextlib
import json
import re
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from retrieval_server import LiveServer
from retrieval_worlds import TEXTS, draw_flag, image_world, passage_rows, write_passages
from service_bodies import asked, bomb_bytes, encoded, png_bytes, with_image

from r1_router.retrieval.build import build
from r1_router.retrieval.encoders import FusedEncoder, SentenceEncoder
from r1_router.retrieval.images import EfficientNetEncoder
from r1_router.retrieval.knowledge_base import KnowledgeBase, load
from r1_router.types import IMAGE, TEXT, Passage, Query

pytest.importorskip("fastapi", reason="the extra `serve` is not installed")
pytest.importorskip("uvicorn", reason="the extra `serve` is not installed")

from r1_router.retrieval.service import Served, make_app
from r1_router.retrieval.service_requests import Limits

LIMITS = Limits(
    body_bytes=200_000, queries=8, text_chars=300, k=50, image_bytes=100_000, image_pixels=100_000, in_flight=16
)


@pytest.fixture(scope="module")
def text_base(tmp_path_factory: pytest.TempPathFactory, encoder: SentenceEncoder) -> KnowledgeBase:
    world = tmp_path_factory.mktemp("text")
    folder = build(write_passages(world, passage_rows()), world / "base", TEXT, encoder).folder
    return load(folder, TEXT, encoder)


@pytest.fixture(scope="module")
def image_base(
    tmp_path_factory: pytest.TempPathFactory, encoder: SentenceEncoder, random_image_encoder: EfficientNetEncoder
) -> KnowledgeBase:
    world, fused = tmp_path_factory.mktemp("image"), FusedEncoder(random_image_encoder, encoder)
    folder = build(image_world(world, 4), world / "base", IMAGE, fused).folder
    return load(folder, IMAGE, fused)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pictures")
    (folder / "root").mkdir()
    draw_flag(2).save(folder / "root" / "flag.png")
    draw_flag(2).save(folder / "outside.png")
    (folder / "root" / "link.png").symlink_to(folder / "outside.png")
    return folder


@pytest.fixture(scope="module")
def server(text_base: KnowledgeBase, image_base: KnowledgeBase, pictures: Path) -> Iterator[str]:
    served = [Served(TEXT, text_base, [0.0, "abc"]), Served(IMAGE, image_base)]
    live = LiveServer(make_app(served, LIMITS, image_root=pictures / "root"))
    yield live.url
    live.stop()


def rows(passages: Sequence[Passage]) -> list[tuple[str, str, Any]]:
    return [(passage.id, passage.text, pytest.approx(passage.score, abs=1e-5)) for passage in passages]


def test_a_request_gives_what_the_base_gives(server: str, text_base: KnowledgeBase) -> None:
    answer = httpx.post(f"{server}/search", json=asked([{"text": text} for text in TEXTS])).raise_for_status().json()
    found = [[(row["id"], row["text"], row["score"]) for row in passages] for passages in answer["results"]]
    assert found == [rows(passages) for passages in text_base.search_many([Query(text) for text in TEXTS], 2)]


def test_a_picture_is_found_by_its_bytes_and_by_its_path(server: str) -> None:
    for image in ({"data": encoded(png_bytes())}, {"path": "flag.png"}):
        answer = httpx.post(f"{server}/search", json=with_image(**image)).raise_for_status().json()
        assert answer["results"][0][0]["id"] == "p2"


def test_health_says_what_is_served(server: str) -> None:
    assert httpx.get(f"{server}/health").json() == {
        "status": "ok",
        "sources": {
            TEXT.name: {"tag": "ter", "passages": 5, "made_from": [0.0, "abc"]},
            IMAGE.name: {"tag": "tir", "passages": 4, "made_from": []},
        },
    }


def test_requests_in_flight_share_a_batch_and_are_counted(text_base: KnowledgeBase) -> None:
    class Gate:  # the base, holding its first call till the others have come
        def __init__(self) -> None:
            self.sizes: list[int] = []
            self.go = threading.Event()

        def __len__(self) -> int:
            return len(text_base)

        def search_many(self, queries: Sequence[Query], k: int) -> list[list[Passage]]:
            self.sizes.append(len(queries))
            self.go.wait(10)
            return text_base.search_many(queries, k)

    gate = Gate()
    live = LiveServer(make_app([Served(TEXT, gate)], LIMITS))
    try:
        with ThreadPoolExecutor(9) as pool:
            body = asked([{"text": TEXTS[0]}], k=1)
            posts = [pool.submit(httpx.post, f"{live.url}/search", json=body) for _ in range(9)]
            while "requests_in_flight 9" not in httpx.get(f"{live.url}/metrics").text:
                assert not any(post.done() for post in posts)
            gate.go.set()
            assert all(post.result().json()["results"][0][0]["id"] == "p0" for post in posts)
        httpx.post(f"{live.url}/search", content="{")
        text = httpx.get(f"{live.url}/metrics").text
    finally:
        live.stop()
    assert sum(gate.sizes) == 9 and len(gate.sizes) <= 4
    for line in (
        'r1_router_requests_total{status="200"} 9',
        "r1_router_request_failures_total 1",
        "r1_router_requests_in_flight 0",
        'r1_router_request_seconds_bucket{le="+Inf"} 10',
        "r1_router_request_seconds_count{} 10",
        f'r1_router_batch_queries_sum{{source="text retriever",}} {sum(gate.sizes)}.0',
    ):
        assert line in text
    assert re.search(r'batch_queries_bucket\{source="text retriever",le="8"\} \d', text)


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b"{", 400, "body"),
        (b"\xff\xfe", 400, "body"),
        (b"[" * 100_000, 400, "body"),
        (b'{"source": "\\ud800", "queries": [{"text": "a"}], "k": 1}', 400, "body"),
        (b"[]", 400, "body"),
        (json.dumps({"source": TEXT.name, "k": 1}).encode(), 400, "queries"),
        (json.dumps(asked() | {"page": 2}).encode(), 400, "page"),
        (json.dumps(asked(k=0)).encode(), 400, "k is 0"),
        (json.dumps(asked(k=10**9)).encode(), 400, "k is 1000000000"),
        (json.dumps(asked(k=True)).encode(), 400, "k"),
        (json.dumps(asked(k="2")).encode(), 400, "k"),
        (json.dumps(asked([])).encode(), 400, "0 queries"),
        (json.dumps(asked([{"text": "a"}] * 9)).encode(), 400, "9 queries"),
        (json.dumps(asked([1] * 60_000)).encode(), 400, "queries.0"),
        (json.dumps(asked([{"text": "a" * 301}])).encode(), 400, "301 characters"),
        (json.dumps(asked(source="no such")).encode(), 404, "no source 'no such'"),
        (b" " * 200_001, 413, "more than 200000 bytes"),
        (json.dumps(with_image(data="?? no base64 ??")).encode(), 400, "not base64"),
        (json.dumps(with_image(data="é")).encode(), 400, "not base64"),
        (json.dumps(with_image(data=encoded(b"no picture"))).encode(), 400, "cannot be read"),
        (json.dumps(with_image(data=encoded(png_bytes()[:300]))).encode(), 400, "Cannot read the image"),
        (json.dumps(with_image(data=encoded(b"a" * 100_001))).encode(), 413, "100001 bytes"),
        (json.dumps(with_image(data=encoded(bomb_bytes(1000, 1000)))).encode(), 413, "too many pixels"),
        (json.dumps(with_image(data=encoded(bomb_bytes(60_000, 60_000)))).encode(), 413, "too many pixels"),
        (json.dumps(with_image(path="../outside.png")).encode(), 400, "no image"),
        (json.dumps(with_image(path="/etc/hostname")).encode(), 400, "no image"),
        (json.dumps(with_image(path="link.png")).encode(), 400, "no image"),
        (json.dumps(with_image(path="a\0b")).encode(), 400, "no image"),
        (json.dumps(with_image(path="a" * 5000)).encode(), 400, "no image"),
        (json.dumps(with_image()).encode(), 400, "either data or path"),
    ],
    ids=lambda value: str(value)[:60] if isinstance(value, str) else "",
)
def test_a_broken_request_is_refused_with_a_fix(server: str, body: bytes, status: int, said: str) -> None:
    response = httpx.post(f"{server}/search", content=body)
    told = response.json()
    assert (response.status_code, set(told)) == (status, {"error", "fix"}), told
    assert said in told["error"] and told["fix"]
    assert httpx.post(f"{server}/search", json=asked()).status_code == 200


def test_a_body_without_an_announced_length_is_bounded_too(server: str) -> None:
    sent = 0

    def endless() -> Iterator[bytes]:
        nonlocal sent
        while sent < 500 * 2**20:
            sent += 2**16
            yield b" " * 2**16

    with contextlib.suppress(httpx.TransportError):  # where the server closes while this writes
        assert httpx.post(f"{server}/search", content=endless()).status_code == 413
    assert sent < 100 * 2**20


def test_a_bad_picture_fails_alone(server: str) -> None:
    def post(data: bytes) -> int:
        return httpx.post(f"{server}/search", json=with_image(data=encoded(data))).status_code

    with ThreadPoolExecutor(6) as pool:
        statuses = list(pool.map(post, [png_bytes(), png_bytes()[:300], *[png_bytes()] * 4]))
    assert statuses == [200, 400, 200, 200, 200, 200]


def test_unknown_routes_are_told_the_known_ones(server: str) -> None:
    for response in (httpx.get(f"{server}/nothing"), httpx.get(f"{server}/search")):
        assert response.status_code in (404, 405)
        assert "POST /search" in response.json()["fix"]


def test_without_an_image_root_no_path_is_taken(image_base: KnowledgeBase) -> None:
    live = LiveServer(make_app([Served(IMAGE, image_base)], LIMITS))
    try:
        response = httpx.post(f"{live.url}/search", json=with_image(path="flag.png"))
    finally:
        live.stop()
    assert response.status_code == 400 and "--image-root" in response.json()["fix"]


def test_more_requests_than_may_be_in_flight_are_put_off(text_base: KnowledgeBase) -> None:
    class Slow:
        def __len__(self) -> int:
            return 5

        def search_many(self, queries: Sequence[Query], k: int) -> list[list[Passage]]:
            threading.Event().wait(0.3)
            return text_base.search_many(queries, k)

    live = LiveServer(make_app([Served(TEXT, Slow())], Limits(in_flight=2)))
    try:
        with ThreadPoolExecutor(8) as pool:
            statuses = list(pool.map(lambda _: httpx.post(f"{live.url}/search", json=asked()).status_code, range(8)))
    finally:
        live.stop()
    assert set(statuses) == {200, 503} and statuses.count(200) >= 2


def test_a_failure_of_the_base_is_an_answer_too(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        def __len__(self) -> int:
            return 0

        def search_many(self, queries: Sequence[Query], k: int) -> list[list[Passage]]:
            raise RuntimeError("the secret cause")

    live = LiveServer(make_app([Served(TEXT, Broken())]))
    try:
        response = httpx.post(f"{live.url}/search", json=asked())
    finally:
        live.stop()
    assert response.status_code == 500 and "log" in response.json()["fix"]
    assert "secret" not in response.text and "the secret cause" in caplog.text
