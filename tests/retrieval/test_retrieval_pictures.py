"""Pictures of every odd kind: opened right, or refused by name."""

from __future__ import annotations

import io
import random
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from retrieval_worlds import draw_flag

from r1_router.errors import DataError
from r1_router.pictures import FORMATS, MAX_PIXELS, is_picture, open_picture

RED, GREEN, WHITE = (255, 0, 0), (0, 128, 0), (255, 255, 255)


def test_transparent_parts_become_white(tmp_path: Path) -> None:
    Image.new("RGBA", (4, 4), (255, 0, 0, 0)).save(tmp_path / "clear.png")
    clear = Image.new("P", (4, 4), 1)
    clear.putpalette([*RED, *GREEN])
    clear.save(tmp_path / "palette.gif", transparency=1)
    for name in ("clear.png", "palette.gif"):
        assert open_picture(tmp_path / name).getpixel((0, 0)) == WHITE


def test_the_exif_note_turns_the_picture(tmp_path: Path) -> None:
    image = Image.new("RGB", (40, 20), "white")
    image.paste("red", (0, 0, 8, 20))
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned right by a quarter
    image.save(tmp_path / "turned.jpg", exif=exif, quality=95)
    upright = open_picture(tmp_path / "turned.jpg")
    assert upright.size == (20, 40)
    assert min(upright.getpixel((10, 36))) > 240 and upright.getpixel((10, 2))[1] < 30  # type: ignore[arg-type, index]


@pytest.mark.parametrize("kind", ["gif", "png", "webp"])
def test_of_an_animation_the_first_frame_is_taken(kind: str, tmp_path: Path) -> None:
    frames = [Image.new("RGB", (16, 16), colour) for colour in ("red", "blue")]
    frames[0].save(tmp_path / f"a.{kind}", save_all=True, append_images=frames[1:], duration=50, lossless=True)
    assert open_picture(tmp_path / f"a.{kind}").getpixel((3, 3)) == RED


@pytest.mark.parametrize("kind", ["jpg", "tif"])
def test_cmyk_keeps_its_colours(kind: str, tmp_path: Path) -> None:
    Image.new("CMYK", (16, 16), (0, 255, 255, 0)).save(tmp_path / f"cmyk.{kind}")
    red, green, blue = open_picture(tmp_path / f"cmyk.{kind}").getpixel((5, 5))  # type: ignore[misc]
    assert red > 245 and green < 10 and blue < 10


@pytest.mark.parametrize(("kind", "order"), [("png", "<u2"), ("tif", "<u2"), ("tif", ">u2")])
def test_sixteen_bits_keep_their_greys(kind: str, order: str, tmp_path: Path) -> None:
    greys = np.array([[0, 16384], [32768, 65535]], dtype=order)
    Image.fromarray(greys).save(tmp_path / f"grey.{kind}")
    assert np.asarray(open_picture(tmp_path / f"grey.{kind}"))[..., 0].tolist() == [[0, 64], [128, 255]]


def test_numbers_of_unknown_range_are_refused(tmp_path: Path) -> None:
    for name, dtype in (("float.tif", np.float32), ("long.tif", np.int32)):
        Image.fromarray(np.ones((4, 4), dtype=dtype)).save(tmp_path / name)
        with pytest.raises(DataError, match=rf"{name}.*32-bit"):
            open_picture(tmp_path / name)


def bomb(width: int, height: int) -> bytes:
    """A PNG of a few bytes that says it is that large."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(b"\0" * 100)) + chunk(b"IEND", b"")


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize("side", [10_000, 60_000])
def test_a_bomb_is_refused_before_it_is_unfolded(side: int, tmp_path: Path) -> None:
    assert side * side > MAX_PIXELS
    (tmp_path / "bomb.png").write_bytes(bomb(side, side))
    with pytest.raises(DataError, match=r"bomb\.png"):
        open_picture(tmp_path / "bomb.png")


def test_what_is_no_picture_is_named(tmp_path: Path) -> None:
    (tmp_path / "page.jpg").write_text("<html>not found</html>")
    (tmp_path / "program.jpg").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n")
    (tmp_path / "empty.png").write_bytes(b"")
    for path in (*(tmp_path / name for name in ("page.jpg", "program.jpg", "empty.png", "absent.jpg")), tmp_path):
        with pytest.raises(DataError, match=path.name):
            open_picture(path)


@pytest.mark.filterwarnings("ignore::UserWarning:PIL")
@pytest.mark.parametrize("kind", FORMATS)
def test_broken_bytes_give_a_picture_or_its_name(kind: str, tmp_path: Path) -> None:
    whole = io.BytesIO()
    draw_flag(1).resize((48, 32)).save(whole, kind)
    data, path, rng = whole.getvalue(), tmp_path / "broken", random.Random(0)
    assert is_picture(data)
    refused = 0
    for n in range(150):
        broken = bytearray(data[: rng.randrange(8, len(data))] if n % 2 else data)
        for _ in range(rng.randrange(1, 6)):
            broken[rng.randrange(len(broken))] = rng.randrange(256)
        path.write_bytes(broken)
        try:
            assert open_picture(path).mode == "RGB"
        except DataError as error:
            refused += "broken" in str(error)
    assert refused > 20
