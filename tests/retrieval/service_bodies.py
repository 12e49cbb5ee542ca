"""What is sent to a retrieval server, sound and unsound."""

import base64
import io
import struct
import zlib
from collections.abc import Sequence
from typing import Any

from retrieval_worlds import draw_flag

from r1_router.types import IMAGE, TEXT


def asked(queries: Sequence[Any] = ({"text": "alpha"},), k: Any = 2, source: Any = TEXT.name) -> dict[str, Any]:
    return {"source": source, "queries": list(queries), "k": k}


def with_image(**image: str) -> dict[str, Any]:
    return asked([{"text": "flag", "image": image}], source=IMAGE.name)


def png_bytes(seed: int = 2) -> bytes:
    buffer = io.BytesIO()
    draw_flag(seed).save(buffer, "PNG")
    return buffer.getvalue()


def bomb_bytes(width: int, height: int) -> bytes:
    """A PNG that says it is so large and holds next to nothing."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(b"\0" * 1000)) + chunk(b"IEND", b"")


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()
