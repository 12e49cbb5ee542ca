"""What may be asked of a retrieval server, and how much of it: requests are read and bounded before they cost much.

{"source": "text retriever", "k": 10, "queries": [{"text": "..", "image": {"data": "<base64>"}}, ..]}
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from PIL import Image
from pydantic import BaseModel, ConfigDict, FailFast, ValidationError

from r1_router.pictures import FORMATS, UNREADABLE
from r1_router.types import Query

FORM = 'Send {"source": NAME, "k": 10, "queries": [{"text": ".."}]}; a query may have {"image": {"data": BASE64}}.'


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that one request may ask for, and how many may be in flight."""

    body_bytes: int = 16 * 2**20
    queries: int = 256
    text_chars: int = 20_000
    k: int = 1000
    image_bytes: int = 8 * 2**20
    image_pixels: int = 50_000_000
    in_flight: int = 256


class Refused(Exception):
    """A request that is not answered: the HTTP status, what was wrong, and what mends it."""

    def __init__(self, status: int, problem: str, fix: str) -> None:
        super().__init__(problem)
        self.status, self.problem, self.fix = status, problem, fix


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class AskedImage(_Strict):
    """A picture, sent as base64 in `data`, or lying at `path` under the server's image root."""

    data: str | None = None
    path: str | None = None


class AskedQuery(_Strict):
    """One query of a request."""

    text: str
    image: AskedImage | None = None


class SearchRequest(_Strict):
    """One request; the first query that is malformed ends its reading."""

    source: str
    queries: Annotated[list[AskedQuery], FailFast()]
    k: int


def read_request(body: bytes, limits: Limits) -> SearchRequest:
    """The request in `body`; raises Refused where it is malformed or asks for too much."""
    try:
        asked = SearchRequest.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        raise Refused(400, f"{'.'.join(map(str, first['loc'])) or 'body'}: {first['msg']}", FORM) from error
    if not 1 <= asked.k <= limits.k:
        raise Refused(400, f"k is {asked.k}", f"Ask for 1 to {limits.k} passages.")
    if not 1 <= len(asked.queries) <= limits.queries:
        raise Refused(400, f"there are {len(asked.queries)} queries", f"Send 1 to {limits.queries} in a request.")
    longest = max(len(query.text) for query in asked.queries)
    if longest > limits.text_chars:
        raise Refused(400, f"a query has {longest} characters", f"Send texts of at most {limits.text_chars}.")
    return asked


def with_pictures(queries: list[AskedQuery], limits: Limits, root: Path | None, scratch: Path) -> list[Query]:
    """The queries with their pictures as files, those that were sent written into `scratch`; raises Refused."""
    return [
        Query(query.text, str(_picture(query.image, limits, root, scratch / str(n))) if query.image else None)
        for n, query in enumerate(queries)
    ]


def _picture(asked: AskedImage, limits: Limits, root: Path | None, to: Path) -> Path:
    if (asked.data is None) == (asked.path is None):
        raise Refused(400, "an image needs either data or path", FORM)
    path = _write_data(asked.data, limits, to) if asked.data is not None else _inside(root, str(asked.path))
    if path.stat().st_size > limits.image_bytes:
        raise _too_large(path.stat().st_size, limits)
    _check_pixels(path, limits)
    return path


def _write_data(data: str, limits: Limits, to: Path) -> Path:
    if len(data) * 3 // 4 > limits.image_bytes + 2:  # before it is decoded; padding makes up to two bytes
        raise _too_large(len(data) * 3 // 4, limits)
    try:
        to.write_bytes(base64.b64decode(data, validate=True))
    except (binascii.Error, ValueError) as error:
        raise Refused(
            400, f"image.data is not base64 ({error})", "Send the file's bytes in standard base64."
        ) from error
    return to


def _inside(root: Path | None, name: str) -> Path:
    """The file of that name under the root; whether one outside exists is not told."""
    if root is None:
        raise Refused(400, "this server takes no image paths", "Send image.data, or start it with --image-root.")
    try:
        path = (root / name).resolve()
        is_inside = path.is_relative_to(root.resolve()) and path.is_file()
    except (OSError, ValueError):  # a name that no file can have
        is_inside = False
    if not is_inside:
        raise Refused(400, f"no image {name[:200]!r} under the image root", "Give a path relative to the image root.")
    return path


def _check_pixels(path: Path, limits: Limits) -> None:
    """Read the picture's header alone: a small file may unpack to any size."""
    try:
        with Image.open(path, formats=list(FORMATS)) as image:
            pixels = image.width * image.height
    except UNREADABLE as error:
        raise Refused(400, "an image cannot be read", f"Send one of {', '.join(FORMATS)}.") from error
    except Image.DecompressionBombError as error:
        raise _too_many_pixels(limits) from error
    if pixels > limits.image_pixels:
        raise _too_many_pixels(limits)


def _too_large(size: int, limits: Limits) -> Refused:
    return Refused(413, f"an image has {size} bytes", f"Send images of at most {limits.image_bytes} bytes.")


def _too_many_pixels(limits: Limits) -> Refused:
    return Refused(413, "an image has too many pixels", f"Scale it down to at most {limits.image_pixels} pixels.")
