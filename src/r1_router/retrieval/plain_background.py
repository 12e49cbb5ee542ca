"""Finds a flat picture (a flag, a page, a sign) that lies askew on a plain background, and straightens it.

The background is a smooth colour surface fitted to the rim of the image. What differs from it is the picture; the
largest four-sided figure among the corners of its hull is its outline, and a perspective transform maps that onto a
rectangle. Photographs have no such rim or no such outline and are left as they are.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFilter

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

WORKING_SIZE = 128  # pixels of the longer side; the outline is exact to about half a pixel of it
RIM = 2  # pixels of rim that are taken for background
MIN_DISTANCE = 10.0  # RGB distance from the background (0..442) from which on a pixel belongs to the picture
NOISE_FACTOR = 4.0  # ... or this many times the median distance within the rim, where that is more
MIN_PLAIN_RIM = 0.8  # share of the rim that must follow the fitted surface; a flag that fills the image stays below
MIN_AREA = 0.1  # share of the image
MIN_SQUARENESS = 0.88  # area of the four-sided figure over that of the hull
MIN_FILLED = 0.6  # share of the four-sided figure that differs from the background
MAX_HULL = 24  # hull points looked at: 24 choose 4 figures
INSET = 0.015  # the straightened picture leaves out this much of its blurred edge


def straightened(image: Image.Image, size: tuple[int, int]) -> Image.Image | None:
    """The picture that lies on the plain background of `image`, at `size`; None where there is no such picture."""
    corners = find_corners(image)
    if corners is None:
        return None
    centre = corners.mean(axis=0)
    inner = centre + (corners - centre) * (1 - INSET)
    return image.transform(size, Image.Transform.PERSPECTIVE, _perspective(size, inner), Image.Resampling.BICUBIC)


def find_corners(image: Image.Image) -> Floats | None:
    """(4, 2) pixel positions x, y of the picture's corners, top left first and clockwise; None where none is found."""
    scale = WORKING_SIZE / max(image.size)
    width, height = (max(8, round(side * scale)) for side in image.size)
    small = image.convert("RGB").resize((width, height), Image.Resampling.BOX).filter(ImageFilter.MedianFilter(3))
    mask = _foreground(np.asarray(small, dtype=np.float64))
    if mask is None or mask.mean() < MIN_AREA:
        return None
    hull = _hull(_edge_points(mask))
    corners = _largest_quadrilateral(hull)
    area = _area(corners)
    if area < MIN_SQUARENESS * _area(hull) or mask.sum() < MIN_FILLED * area:
        return None
    return _from_top_left(corners, width, height) * (np.array(image.size) / (width, height))


def _foreground(pixels: Floats) -> Mask | None:
    """Which pixels differ from the smooth surface through the rim; None where the rim follows no such surface."""
    height, width, _ = pixels.shape
    y, x = np.mgrid[0 : 1 : height * 1j, 0 : 1 : width * 1j]
    basis = np.stack([np.ones_like(x), x, y, x * x, x * y, y * y], axis=-1)
    rim = np.ones((height, width), dtype=bool)
    rim[RIM:-RIM, RIM:-RIM] = False
    plain = rim
    for _ in range(4):  # each round fits again without the pixels that lay far off: a corner may touch the rim
        surface = basis @ np.linalg.lstsq(basis[plain], pixels[plain], rcond=None)[0]
        distance = np.linalg.norm(pixels - surface, axis=-1)
        plain = rim & (distance < max(3.0, 2.5 * float(np.median(distance[plain]))))
        if plain.sum() < MIN_PLAIN_RIM * rim.sum():
            return None
    noise = float(np.median(distance[plain]))
    if noise > MIN_DISTANCE:
        return None
    return _without_specks(distance > max(MIN_DISTANCE, NOISE_FACTOR * noise))


def _without_specks(mask: Mask) -> Mask:
    image = Image.fromarray(mask.astype(np.uint8) * 255)
    return np.asarray(image.filter(ImageFilter.MinFilter(3)).filter(ImageFilter.MaxFilter(3))) > 0


def _edge_points(mask: Mask) -> Floats:
    """The outer corners of the first and last pixel of each row."""
    points = []
    for y in np.flatnonzero(mask.any(axis=1)):
        columns = np.flatnonzero(mask[y])
        points += [(x, edge) for x in (columns[0], columns[-1] + 1) for edge in (y, y + 1)]
    return np.array(points, dtype=np.float64)


def _hull(points: Floats) -> Floats:
    """The convex hull in order around it (Andrew's monotone chain)."""
    ordered = sorted({(float(x), float(y)) for x, y in points})
    return np.array(_half_hull(ordered) + _half_hull(ordered[::-1]))


def _half_hull(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    chain: list[tuple[float, float]] = []
    for point in points:
        while len(chain) > 1 and _turn(chain[-2], chain[-1], point) <= 0:
            chain.pop()
        chain.append(point)
    return chain[:-1]


def _turn(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> float:
    return (b[0] - a[0]) * (c[1] - b[1]) - (b[1] - a[1]) * (c[0] - b[0])


def _largest_quadrilateral(hull: Floats) -> Floats:
    """The four hull points that span the largest area, in the hull's order; the hull has at least four."""
    if len(hull) > MAX_HULL:
        hull = hull[np.linspace(0, len(hull) - 1, MAX_HULL).astype(int)]
    figures = hull[np.array(list(combinations(range(len(hull)), 4)))]
    return figures[_area(figures).argmax()]


def _area(figures: Floats) -> NDArray[np.float64]:
    """Areas of figures (..., points, 2), points in order around each."""
    x, y = figures[..., 0], figures[..., 1]
    return 0.5 * np.abs((x * np.roll(y, -1, axis=-1) - y * np.roll(x, -1, axis=-1)).sum(axis=-1))


def _from_top_left(corners: Floats, width: int, height: int) -> Floats:
    """Clockwise, and begun so that the corners lie nearest to those of the image: pictures are not upside down."""
    centred = corners - corners.mean(axis=0)
    clockwise = corners[np.argsort(np.arctan2(centred[:, 1], centred[:, 0]))]
    frame = np.array([[0, 0], [width, 0], [width, height], [0, height]], dtype=np.float64)
    return min((np.roll(clockwise, n, axis=0) for n in range(4)), key=lambda turn: ((turn - frame) ** 2).sum())


def _perspective(size: tuple[int, int], corners: Floats) -> list[float]:
    """Pillow's eight coefficients: they map points of a `size` rectangle to points between `corners`."""
    width, height = size
    rows = []
    for (x, y), (u, v) in zip([(0, 0), (width, 0), (width, height), (0, height)], corners, strict=True):
        rows.append([x, y, 1, 0, 0, 0, -u * x, -u * y])
        rows.append([0, 0, 0, x, y, 1, -v * x, -v * y])
    return [float(c) for c in np.linalg.solve(np.array(rows), corners.reshape(-1))]
