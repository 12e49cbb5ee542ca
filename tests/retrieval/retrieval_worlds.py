"""A passages file of a few rows, and pictures drawn on the spot."""

import json
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw

from r1_router.retrieval.encoders import SentenceEncoder

TEXTS = ["alpha river of the north", "beta mountain 8848", "gamma são tomé island", "delta city 1999", "epsilon lake"]
MakeEncoder = Callable[[int], SentenceEncoder]
COLOURS = ["red", "white", "blue", "green", "gold", "black", "orange", "skyblue"]


def passage_rows(texts: Sequence[str] = TEXTS) -> list[dict[str, Any]]:
    return [{"id": f"p{n}", "title": text.split()[0], "text": text} for n, text in enumerate(texts)]


def write_passages(world: Path, rows: Sequence[Mapping[str, Any]], name: str = "text") -> Path:
    path = world / "kb" / f"{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def draw_flag(seed: int) -> Image.Image:
    """Three bands, horizontal or vertical, with a disc, in colours told by the seed."""
    rng = random.Random(seed)
    flag = Image.new("RGB", (240, 160))
    pen = ImageDraw.Draw(flag)
    bands = rng.sample(COLOURS, 4)
    upright = rng.random() < 0.5
    for n in range(3):
        box = (80 * n, 0, 80 * n + 79, 159) if upright else (0, 54 * n, 239, 54 * n + 53)
        pen.rectangle(box, fill=bands[n])
    pen.ellipse((90, 50, 150, 110), fill=bands[3])
    return flag


def image_world(world: Path, count: int) -> Path:
    """`count` flags as an image knowledge base's passages file."""
    (world / "flags").mkdir(parents=True)
    for n in range(count):
        draw_flag(n).save(world / "flags" / f"{n}.png")
    texts = [f"flag {word}" for word in ("alpha", "beta", "gamma", "delta", "epsilon", "zeta")[:count]]
    rows = [{**row, "image": f"flags/{n}.png"} for n, row in enumerate(passage_rows(texts))]
    return write_passages(world, rows, "image")
