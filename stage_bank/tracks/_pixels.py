"""Seeded views of real images, and the shapes that are put into them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy import ndimage

from stage_bank.picture import Picture
from stage_bank.skills import COLUMNS, ROWS, Array
from stage_bank.tracks._base import UnfitPictures

__all__ = ["Mask", "compress", "disc", "place_discs", "view"]

Mask = npt.NDArray[np.bool_]
TRIES = 12
"""Crops drawn before the liveliest is taken, so that a view is not bare background."""

SMALLEST = 8
"""Least side of a picture in pixels."""

SEARCHES = 8
"""How often as many crops are drawn before no crop of the pictures is said to fit."""


def view(pictures: Sequence[Picture], rng: np.random.Generator, blur: float, *, clear: bool = False) -> Array:
    """One seeded view: a crop of one picture, flipped, resized to 64 by 48, blurred, stretched to [0, 1].

    Args:
        pictures: real pictures of one patient.
        rng: decides picture, crop and flips.
        blur: Gaussian sigma in output pixels; takes the picture's own noise away.
        clear: whether crops that show any of the picture's own findings are out of the question, so that none of them
            is covered by something fabricated or counted as wrongly found.

    Raises:
        UnfitPictures: no two-dimensional finite picture with structure among them, or no crop that is clear.
    """
    crop = _crop(pictures, rng, clear=clear)
    if rng.random() < 0.5:
        crop = crop[:, ::-1]
    if rng.random() < 0.5:
        crop = crop[::-1]
    crop = ndimage.gaussian_filter(crop, blur, mode="nearest")
    low, high = np.percentile(crop, [2.0, 98.0])
    if high - low < 1e-3:
        raise UnfitPictures("picture without structure", remedy="leave out blank pictures")
    stretched: Array = np.clip((crop - low) / (high - low), 0.0, 1.0)
    return stretched


def _crop(pictures: Sequence[Picture], rng: np.random.Generator, *, clear: bool) -> Array:
    """The liveliest of some crops drawn from all pictures, resized to the case grid."""
    for _ in range(SEARCHES):
        drawn = [pictures[int(rng.integers(len(pictures)))] for _ in range(TRIES)] if pictures else []
        places = [(picture, _window(picture.pixels, rng)) for picture in drawn if _large_enough(picture.pixels)]
        windows = [picture.pixels[place] for picture, place in places if not (clear and _marked(picture, place))]
        for window in sorted(windows, key=_liveliness, reverse=True):
            crop = _resampled(window)
            if np.isfinite(crop).all():
                return crop
    raise UnfitPictures(
        "no usable view",
        remedy="give finite pictures of two dimensions; lesions are only put where the site's reference marks nothing",
    )


def _liveliness(window: npt.NDArray[np.float32]) -> float:
    """Standard deviation of about one pixel for each of the case grid; 0 where one of them is not finite."""
    sample = window[:: max(window.shape[0] // ROWS, 1), :: max(window.shape[1] // COLUMNS, 1)]
    spread = float(sample.std())
    return spread if np.isfinite(spread) else 0.0


def _large_enough(image: npt.NDArray[np.float32]) -> bool:
    return image.ndim == 2 and min(image.shape) >= SMALLEST


def _marked(picture: Picture, place: tuple[slice, slice]) -> bool:
    return picture.findings is not None and bool(picture.findings[place].any())


def _window(image: npt.NDArray[np.float32], rng: np.random.Generator) -> tuple[slice, slice]:
    """A crop of 60 to 100 % of the largest window with the sides' ratio of a case."""
    rows, columns = image.shape
    unit = min(rows / ROWS, columns / COLUMNS) * rng.uniform(0.6, 1.0)
    height, width = max(int(unit * ROWS), 4), max(int(unit * COLUMNS), 3)
    top, left = int(rng.integers(rows - height + 1)), int(rng.integers(columns - width + 1))
    return slice(top, top + height), slice(left, left + width)


def _resampled(window: npt.NDArray[np.float32]) -> Array:
    """A window resized to the case grid: block means first (against aliasing), then linear interpolation."""
    factor = max(min(window.shape[0] // ROWS, window.shape[1] // COLUMNS), 1)
    rows, columns = window.shape[0] // factor, window.shape[1] // factor
    blocks = window[: rows * factor, : columns * factor].astype(np.float64)
    means = blocks.reshape(rows, factor, columns, factor).mean(axis=(1, 3))
    return _between(_between(means, ROWS).T, COLUMNS).T


def _between(array: Array, size: int) -> Array:
    """An array resized to so many rows by linear interpolation, the first and the last row kept."""
    places = np.linspace(0.0, array.shape[0] - 1.0, size)
    before = np.minimum(places.astype(int), max(array.shape[0] - 2, 0))
    after = np.minimum(before + 1, array.shape[0] - 1)
    share = (places - before)[:, None]
    resized: Array = (1.0 - share) * array[before] + share * array[after]
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
        UnfitPictures: the discs do not fit.
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
    raise UnfitPictures(
        "discs do not fit into the view", where=f"radii {list(radii)}", remedy="use fewer or smaller ones"
    )
