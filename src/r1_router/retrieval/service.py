"""Knowledge bases over HTTP: POST /search, GET /health, GET /metrics; requests in flight share the bases' batches."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from r1_router.errors import DataError, KnowledgeBaseDown
from r1_router.retrieval.service_metrics import QUERIES, Histogram, Metrics
from r1_router.retrieval.service_requests import Limits, Refused, read_request, with_pictures
from r1_router.retrieval.together import Searchable, Together
from r1_router.types import Passage, Source

KEEP_ALIVE_SECONDS = 30
"""Longer than clients keep an idle connection, so that none is closed while a request is on its way."""
TOO_LARGE = 413
ROUTES = "There are POST /search, GET /health and GET /metrics."
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Served:
    """One knowledge base to serve; `made_from` is told to clients, whose result files depend on it."""

    source: Source
    base: Searchable
    made_from: Sequence[Any] = ()


class Service:
    """The three routes over some knowledge bases; image paths are taken from `image_root` alone."""

    def __init__(self, served: Sequence[Served], limits: Limits, image_root: Path | None) -> None:
        self._served = {one.source.name: one for one in served}
        self._limits = limits
        self._image_root = image_root
        self._metrics = Metrics({name: Histogram(QUERIES) for name in self._served})
        self._searches = {
            name: Together(one.base.search_many, self._metrics.batches[name].observe)
            for name, one in self._served.items()
        }

    async def search(self, request: Request) -> Response:
        """The passages of each query, best first; a request is answered whole or refused with a reason."""
        started = time.perf_counter()
        self._metrics.in_flight += 1
        response: Response = problem(500, "the search failed", "The server's log has the cause.")
        try:
            response = await self._answer(request)
        except Refused as refused:
            response = problem(refused.status, refused.problem, refused.fix)
        except ClientDisconnect:
            response = problem(400, "the request ended early", "Send it whole.")
        except KnowledgeBaseDown as error:
            response = problem(503, str(error), "Try again later.")
        except DataError as error:
            response = problem(400, str(error), "Mend the query.")
        except Exception:  # whatever kind it is, the client is owed an answer
            _log.exception("a search failed")
        finally:
            self._metrics.in_flight -= 1
            self._metrics.finish(response.status_code, time.perf_counter() - started)
        return response

    async def health(self) -> dict[str, Any]:
        """What is served, and what it was made from."""
        return {"status": "ok", "sources": {name: _about(one) for name, one in self._served.items()}}

    async def metrics(self) -> Response:
        """The counts as Prometheus reads them."""
        return PlainTextResponse(self._metrics.text(), media_type="text/plain; version=0.0.4")

    async def _answer(self, request: Request) -> Response:
        if self._metrics.in_flight > self._limits.in_flight:
            raise Refused(503, f"{self._limits.in_flight} requests are in flight", "Try again shortly.")
        asked = read_request(await _bounded_body(request, self._limits.body_bytes), self._limits)
        if asked.source not in self._served:
            raise Refused(404, f"no source {asked.source[:200]!r} is served", f"Ask {' or '.join(self._served)}.")
        together = self._searches[asked.source]
        has_pictures = any(query.image for query in asked.queries)
        with TemporaryDirectory(prefix="r1-router-") if has_pictures else nullcontext("") as scratch:
            queries = with_pictures(asked.queries, self._limits, self._image_root, Path(scratch))
            searches = (together.search(query, asked.k) for query in queries)
            found = await asyncio.gather(*searches, return_exceptions=True)
        return JSONResponse({"results": [_rows(passages) for passages in found]})


def make_app(served: Sequence[Served], limits: Limits | None = None, image_root: Path | None = None) -> FastAPI:
    """The application: the routes, and every error as JSON with what mends it."""
    service = Service(served, limits or Limits(), image_root)
    app = FastAPI(title="R1-Router retriever", openapi_url=None)
    app.add_api_route("/search", service.search, methods=["POST"], response_model=None)
    app.add_api_route("/health", service.health)
    app.add_api_route("/metrics", service.metrics, response_model=None)
    app.add_exception_handler(HTTPException, _not_routed)
    return app


def serve(app: FastAPI, host: str, port: int) -> None:
    """Run the application till it is told to stop; searches in flight are answered first."""
    import uvicorn

    uvicorn.run(app, host=host, port=port, access_log=False, log_level="warning", timeout_keep_alive=KEEP_ALIVE_SECONDS)


def problem(status: int, error: str, fix: str) -> JSONResponse:
    """An error as clients read it; after one about size the connection closes, so that nobody sends the rest."""
    headers = {"Connection": "close"} if status == TOO_LARGE else None
    return JSONResponse({"error": error, "fix": fix}, status, headers)


async def _not_routed(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return problem(error.status_code, f"{request.method} {request.url.path[:200]}: {error.detail}", ROUTES)


async def _bounded_body(request: Request, limit: int) -> bytes:
    """The body; one that is announced or turns out longer than `limit` is refused, the rest of it unread."""
    too_large = Refused(TOO_LARGE, f"the body has more than {limit} bytes", "Send fewer queries, or smaller images.")
    announced = request.headers.get("content-length", "0")
    if not announced.isdecimal() or int(announced) > limit:
        raise too_large
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > limit:
            raise too_large
    return bytes(body)


def _about(served: Served) -> dict[str, Any]:
    return {"tag": served.source.tag, "passages": len(served.base), "made_from": list(served.made_from)}


def _rows(passages: list[Passage] | BaseException) -> list[dict[str, Any]]:
    """The passages as plain values; raises what their search raised."""
    if isinstance(passages, BaseException):
        raise passages
    return [{"id": passage.id, "text": passage.text, "score": passage.score} for passage in passages]
