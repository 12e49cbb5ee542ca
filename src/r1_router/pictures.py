"""Pictures in files: which bytes are one, and opening one upright, in colour and of a size that memory holds."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from r1_router.errors import DataError

if TYPE_CHECKING:
    from PIL import Image

FORMATS = {
    "JPEG": (b"\xff\xd8\xff",),
    "PNG": (b"\x89PNG\r\n\x1a\n",),
    "GIF": (b"GIF8",),
    "BMP": (b"BM",),
    "TIFF": (b"II*\x00", b"MM\x00*"),
    "WEBP": (b"RIFF",),
}
"""How each format's bytes start, by Pillow's name for it. Others are not opened: some run programs to be read."""
MAX_PIXELS = 89_478_485
"""A quarter of a GiB in colour, where Pillow warns of a bomb: a few kilobytes can unfold to terabytes."""
UNREADABLE = (OSError, SyntaxError, ValueError, TypeError, LookupError, EOFError, ArithmeticError, struct.error)
"""What Pillow's decoders stumble on in a broken file."""


def is_picture(head: bytes) -> bool:
    """Whether bytes start as JPEG, PNG, GIF, BMP, TIFF or WebP do; a page that says "not found" does not."""
    starts = tuple(start for starts in FORMATS.values() for start in starts)
    return head.startswith(starts) and (not head.startswith(b"RIFF") or head[8:12] == b"WEBP")


def open_picture(path: str | Path) -> Image.Image:
    """The picture as RGB: turned as its EXIF note says, an animation's first frame, transparent parts on white.

    Raises DataError where there is none, where it is broken, or where it has more than `MAX_PIXELS`.
    """
    from PIL import Image, ImageOps

    try:
        with Image.open(path, formats=list(FORMATS)) as image:
            if image.width * image.height > MAX_PIXELS:
                raise ValueError(f"{image.width} x {image.height} pixels, more than {MAX_PIXELS:,} in all")
            return _in_colour(ImageOps.exif_transpose(image))
    except (*UNREADABLE, Image.DecompressionBombError) as error:
        raise DataError(f"Cannot read the image {path}: {error}. Check the path, or replace the file.") from error


def _in_colour(image: Image.Image) -> Image.Image:
    from PIL import Image

    if image.mode.startswith("I;16"):  # Pillow would cut the values at 255: all white
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if image.mode in ("I", "F"):
        raise ValueError("its pixels are 32-bit numbers, of which the file does not say what is white")
    if image.has_transparency_data:
        rgba = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", rgba.size, "white"), rgba).convert("RGB")
    return image.convert("RGB")
