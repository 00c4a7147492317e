"""Seeded views of real images, and the shapes that are put into them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy import ndimage

from common.errors import DataError
from stage_bank.skills import COLUMNS, LEVELS, ROWS, Array, field_band, field_part, wave_part
from stage_bank.tracks._base import Image

__all__ = ["Mask", "compress", "disc", "place_discs", "view", "without_field", "without_waves"]

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
    crops = [_crop(usable[int(rng.integers(len(usable)))], rng) for _ in range(TRIES)]
    crop = ndimage.gaussian_filter(max(crops, key=lambda array: float(array.std())), blur, mode="nearest")
    low, high = np.percentile(crop, [2.0, 98.0])
    if high - low < 1e-3:
        raise DataError("image without structure", remedy="leave out blank images")
    return np.clip((crop - low) / (high - low), 0.0, 1.0)


def _crop(image: Image, rng: np.random.Generator) -> Array:
    """A crop of 60 to 100 % of the largest 4:3 window, resized by cubic interpolation after anti-alias blur."""
    rows, columns = image.shape
    unit = min(rows / ROWS, columns / COLUMNS) * rng.uniform(0.6, 1.0)
    height, width = unit * ROWS, unit * COLUMNS
    top, left = rng.uniform(0, rows - height), rng.uniform(0, columns - width)
    source = image.astype(np.float64)
    if unit > 1.0:
        source = ndimage.gaussian_filter(source, 0.4 * unit, mode="nearest")
    grid = np.meshgrid(
        top + (np.arange(ROWS) + 0.5) * unit - 0.5, left + (np.arange(COLUMNS) + 0.5) * unit - 0.5, indexing="ij"
    )
    crop: Array = ndimage.map_coordinates(source, grid, order=1, mode="nearest")
    if rng.random() < 0.5:
        crop = crop[:, ::-1]
    return crop[::-1] if rng.random() < 0.5 else crop


def compress(image: Array, low: float, high: float) -> Array:
    """Map an image affinely so that its extremes are `low` and `high`."""
    smallest, largest = float(image.min()), float(image.max())
    return low + (high - low) * (image - smallest) / max(largest - smallest, 1e-9)


def without_waves(image: Array) -> Array:
    """Take out the column waves at every level's spacing, so that only an inserted one can be measured."""
    for level in LEVELS:
        image = image - wave_part(image, level)
    return image


def without_field(image: Array) -> Array:
    """Take out the slow cosine fields of every level's order, so that only an inserted one can be measured."""
    for level in LEVELS:
        image = image - field_part(SHAPE, level, field_band(image, level))
    return image


def disc(centre: tuple[float, float], radius: float) -> Mask:
    """A filled disc on the case grid."""
    row, column = np.ogrid[:ROWS, :COLUMNS]
    inside: Mask = (row - centre[0]) ** 2 + (column - centre[1]) ** 2 <= radius**2
    return inside


def place_discs(radii: Sequence[float], rng: np.random.Generator, gap: float = 5.0) -> list[tuple[float, float]]:
    """Centres, in pixels, of discs that lie inside the image and do not touch.

    Raises:
        DataError: the discs do not fit.
    """
    for _ in range(200):
        centres: list[tuple[float, float]] = []
        for radius in radii:
            margin = radius + 3.0
            centre = (rng.uniform(margin, ROWS - 1 - margin), rng.uniform(margin, COLUMNS - 1 - margin))
            near = zip(centres, radii, strict=False)
            if any(np.hypot(centre[0] - c[0], centre[1] - c[1]) < radius + other + gap for c, other in near):
                break
            centres.append(centre)
        if len(centres) == len(radii):
            return centres
    raise DataError("discs do not fit into the view", where=f"radii {list(radii)}", remedy="use fewer or smaller ones")
