"""Seeded views of real images, and the shapes that are put into them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy import ndimage

from common.errors import DataError
from stage_bank.skills import COLUMNS, ROWS, Array
from stage_bank.tracks._base import Image

__all__ = ["Mask", "compress", "disc", "place_discs", "view"]

Mask = npt.NDArray[np.bool_]
SHAPE = (ROWS, COLUMNS)
TRIES = 12
"""Crops drawn before the liveliest is taken, so that a view is not bare background."""


def view(images: Sequence[Image], rng: np.random.Generator, blur: float) -> Array:
    """One seeded view: a crop of one image, flipped, resized to 64 by 48, blurred, stretched to [0, 1].

    Args:
        images: real images, any size, float in [0, 1].
        rng: decides image, crop and flips.
        blur: Gaussian sigma in output pixels; takes the image's own noise away.

    Raises:
        DataError: no two-dimensional finite image with structure among them.
    """
    usable = [image for image in images if image.ndim == 2 and min(image.shape) >= 8 and np.isfinite(image).all()]
    if not usable:
        raise DataError("no usable image", remedy="give two-dimensional finite images of at least 8 by 8 pixels")
    windows = [_window(usable[int(rng.integers(len(usable)))], rng) for _ in range(TRIES)]
    crop = max((_resampled(window) for window in windows), key=lambda array: float(array.std()))
    if rng.random() < 0.5:
        crop = crop[:, ::-1]
    if rng.random() < 0.5:
        crop = crop[::-1]
    crop = ndimage.gaussian_filter(crop, blur, mode="nearest")
    low, high = np.percentile(crop, [2.0, 98.0])
    if high - low < 1e-3:
        raise DataError("image without structure", remedy="leave out blank images")
    stretched: Array = np.clip((crop - low) / (high - low), 0.0, 1.0)
    return stretched


def _window(image: Image, rng: np.random.Generator) -> Image:
    """A crop of 60 to 100 % of the largest window with the sides' ratio of a case."""
    rows, columns = image.shape
    unit = min(rows / ROWS, columns / COLUMNS) * rng.uniform(0.6, 1.0)
    height, width = max(int(unit * ROWS), 4), max(int(unit * COLUMNS), 3)
    top, left = int(rng.integers(rows - height + 1)), int(rng.integers(columns - width + 1))
    return image[top : top + height, left : left + width]


def _resampled(window: Image) -> Array:
    """A window resized to the case grid: block means first (against aliasing), then linear interpolation."""
    factor = max(min(window.shape[0] // ROWS, window.shape[1] // COLUMNS), 1)
    rows, columns = window.shape[0] // factor, window.shape[1] // factor
    blocks = window[: rows * factor, : columns * factor].astype(np.float64)
    means = blocks.reshape(rows, factor, columns, factor).mean(axis=(1, 3))
    grid = np.meshgrid(np.linspace(0, rows - 1, ROWS), np.linspace(0, columns - 1, COLUMNS), indexing="ij")
    resized: Array = ndimage.map_coordinates(means, grid, order=1, mode="nearest")
    return resized


def compress(image: Array, low: float, high: float) -> Array:
    """Map an image affinely so that its extremes are `low` and `high`."""
    smallest, largest = float(image.min()), float(image.max())
    return low + (high - low) * (image - smallest) / max(largest - smallest, 1e-9)


def disc(centre: tuple[float, float], radius: float) -> Mask:
    """A filled disc on the case grid."""
    row, column = np.ogrid[:ROWS, :COLUMNS]
    inside: Mask = (row - centre[0]) ** 2 + (column - centre[1]) ** 2 <= radius**2
    return inside


def _inside(size: int, margin: float, rng: np.random.Generator) -> int:
    """A whole pixel at least `margin` from both ends."""
    return int(rng.integers(int(np.ceil(margin)), int(size - 1 - margin) + 1))


def place_discs(radii: Sequence[float], rng: np.random.Generator, gap: float = 5.0) -> list[tuple[int, int]]:
    """Centres, in pixels, of discs that lie inside the image and do not touch.

    Raises:
        DataError: the discs do not fit.
    """
    for _ in range(200):
        centres: list[tuple[int, int]] = []
        for radius in radii:
            margin = radius + 3.0
            centre = (_inside(ROWS, margin, rng), _inside(COLUMNS, margin, rng))
            near = zip(centres, radii, strict=False)
            if any(np.hypot(centre[0] - c[0], centre[1] - c[1]) < radius + other + gap for c, other in near):
                break
            centres.append(centre)
        if len(centres) == len(radii):
            return centres
    raise DataError("discs do not fit into the view", where=f"radii {list(radii)}", remedy="use fewer or smaller ones")
