"""Flags: the stored pictures (identical ones merged, captioned) and the distorted renders shown with questions."""

from __future__ import annotations

import hashlib
import io
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageEnhance, ImageFilter

from r1_router.factbook.source import Country, text_at

CAPTION_WORDS = 40
LOOKALIKE_RMS = 0.11  # colour distance (0..1, 24x16 thumbnails) under which a distorted render cannot tell two flags
QUERY_SIZE = (256, 192)  # pixels
JPEG_QUALITY = 70


@dataclass(frozen=True, slots=True)
class Flag:
    """One stored flag and the countries that fly it; `unique`: a distorted render still names one country."""

    id: str
    countries: tuple[Country, ...]
    png: bytes
    unique: bool

    def record(self) -> dict[str, Any]:
        """The knowledge-base row: caption with the country named, picture path inside the world."""
        first, *others = self.countries
        title = f"Flag of {first.name}"
        also = f" Also flown by {', '.join(c.name for c in others)}." if others else ""
        words = _description(first).split()[:CAPTION_WORDS]
        return {
            "id": self.id,
            "title": title,
            "text": f"{title}.{also} {' '.join(words)}".strip(),
            "image": f"flags/{self.countries[0].iso}.png",
        }


def _description(country: Country) -> str:
    text = text_at(country.fields, ("Government", "Flag"))
    text = re.sub(r"^description: ", "", text)
    return re.split(r";? ?(?:meaning|note|history)s?( \d)?:", text)[0].strip()


def build_flags(countries: Sequence[Country], folder: Path) -> list[Flag]:
    """One `Flag` per distinct picture of `folder` (`{iso}.png`), in order of the first country's code."""
    groups: dict[str, list[tuple[Country, bytes]]] = defaultdict(list)
    for country in countries:
        path = folder / f"{country.iso}.png"
        if country.iso and path.is_file():
            pixels = np.asarray(Image.open(path).convert("RGB"))
            groups[hashlib.sha256(pixels.tobytes()).hexdigest()].append((country, path.read_bytes()))
    small = {key: _thumbnail(rows[0][1]) for key, rows in groups.items()}
    flags = []
    for key, rows in groups.items():
        nearest = min(_rms(small[key], other) for name, other in small.items() if name != key)
        unique = len(rows) == 1 and nearest > LOOKALIKE_RMS
        flags.append(Flag(f"image/{rows[0][0].code}", tuple(c for c, _ in rows), rows[0][1], unique))
    return flags


def _thumbnail(png: bytes) -> NDArray[np.float64]:
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB").resize((24, 16), Image.Resampling.BOX)) / 255.0


def _rms(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    return float(np.sqrt(((a - b) ** 2).mean()))


def distort(png: bytes, seed: str) -> bytes:
    """A JPEG render of a flag as a snapshot might show it, the same for the same seed.

    Perspective onto a plain two-colour gradient, blur, brightness, saturation, contrast and noise.
    """
    rng = np.random.default_rng(int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8], "big"))
    flag = Image.open(io.BytesIO(png)).convert("RGBA")
    scene = _background(rng)
    scene.paste(*_in_perspective(flag, rng))
    scene = scene.filter(ImageFilter.GaussianBlur(rng.uniform(0.4, 1.3)))
    scene = ImageEnhance.Brightness(scene).enhance(rng.uniform(0.65, 1.25))
    scene = ImageEnhance.Color(scene).enhance(rng.uniform(0.55, 1.4))
    scene = ImageEnhance.Contrast(scene).enhance(rng.uniform(0.8, 1.15))
    noisy = np.asarray(scene, dtype=np.float64) + rng.normal(0, rng.uniform(4, 14), (*scene.size[::-1], 3))
    out = io.BytesIO()
    Image.fromarray(np.clip(noisy, 0, 255).astype(np.uint8)).save(out, "JPEG", quality=JPEG_QUALITY)
    return out.getvalue()


def _background(rng: np.random.Generator) -> Image.Image:
    width, height = QUERY_SIZE
    top, bottom = rng.uniform(40, 220, 3), rng.uniform(40, 220, 3)
    rows = np.linspace(0, 1, height)[:, None]
    pixels = np.repeat((top * (1 - rows) + bottom * rows)[:, None, :], width, axis=1)
    return Image.fromarray(pixels.astype(np.uint8))


def _in_perspective(flag: Image.Image, rng: np.random.Generator) -> tuple[Image.Image, tuple[int, int], Image.Image]:
    """The flag seen askew on a transparent canvas: (picture, corner, mask) as `Image.paste` takes them."""
    width, height = QUERY_SIZE
    span = np.array([width, height])
    unit = np.array([[0.12, 0.14], [0.88, 0.14], [0.88, 0.86], [0.12, 0.86]])
    corners = (unit + rng.uniform(-0.10, 0.10, (4, 2))) * span
    w, h = flag.size
    source = np.array([[0, 0], [w, 0], [w, h], [0, h]], dtype=np.float64)
    canvas = flag.transform(
        QUERY_SIZE, Image.Transform.PERSPECTIVE, _coefficients(corners, source), Image.Resampling.BICUBIC
    )
    return canvas.convert("RGB"), (0, 0), canvas.getchannel("A")


def _coefficients(target: NDArray[np.float64], source: NDArray[np.float64]) -> list[float]:
    """Pillow's eight perspective coefficients: they map canvas points back to picture points."""
    rows = []
    for (x, y), (u, v) in zip(target, source, strict=True):
        rows.append([x, y, 1, 0, 0, 0, -u * x, -u * y])
        rows.append([0, 0, 0, x, y, 1, -v * x, -v * y])
    return [float(c) for c in np.linalg.solve(np.array(rows), source.reshape(-1))]


def flag_of(flags: Sequence[Flag]) -> Mapping[str, Flag]:
    """Country code -> its flag."""
    return {country.code: flag for flag in flags for country in flag.countries}
