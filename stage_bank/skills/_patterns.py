"""Small signal tools that methods and estimators share: column waves, slow fields, dots and blots of one size."""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt
from scipy import ndimage

from ._words import LEVELS, Array

__all__ = [
    "WAVE_CYCLES",
    "field_band",
    "field_part",
    "profile_wave",
    "size_band",
    "wave_part",
    "without_field",
    "without_waves",
]

WAVE_CYCLES = {"1": 12, "2": 6, "3": 3}
"""Level to cycles over the width: stripes every 4, 8 and 16 of 48 columns."""


@cache
def _wave(columns: int, level: str) -> npt.NDArray[np.complex128]:
    """The level's complex wave over so many columns."""
    wave: npt.NDArray[np.complex128] = np.exp(2j * np.pi * WAVE_CYCLES[level] * np.arange(columns) / columns)
    return wave


def profile_wave(image: Array, level: str) -> complex:
    """Complex amplitude of the column profile at the level's frequency; its modulus is in pixel units."""
    profile = image.mean(axis=0)
    return complex(2.0 * np.vdot(_wave(profile.size, level), profile) / profile.size)


def wave_part(image: Array, level: str) -> Array:
    """The column wave of that frequency in an image, [1, columns], in pixel units."""
    part: Array = np.real(profile_wave(image, level) * _wave(image.shape[1], level))[None, :]
    return part


def field_band(image: Array, level: str) -> Array:
    """The three cosine coefficients of order `level` (across, down, diagonal), scaled to pixel amplitude."""
    band: Array = _bands(image)[int(level) - 1]
    return band


def _bands(image: Array) -> Array:
    """`field_band` of every level, [levels, 3]."""
    down, across = (_cosines(size) for size in image.shape)
    means = np.array([image.mean(axis=0) @ across.T, down @ image.mean(axis=1), np.diag(down @ image @ across.T)])
    bands: Array = means.T * np.array([2.0 / image.shape[1], 2.0 / image.shape[0], 4.0 / image.size])
    return bands


@cache
def _cosines(size: int) -> Array:
    """The slow cosines of every level over so many pixels, [levels, size]."""
    orders = np.array([[float(level)] for level in LEVELS])
    cosines: Array = np.cos(np.pi * orders * (np.arange(size) + 0.5) / size)
    return cosines


def field_part(shape: tuple[int, int], level: str, band: Array) -> Array:
    """The slow field with the given three amplitudes, in pixel units; the inverse of `field_band`."""
    down = _cosines(shape[0])[int(level) - 1][:, None]
    across = _cosines(shape[1])[int(level) - 1][None, :]
    part: Array = band[0] * across + band[1] * down + band[2] * down * across
    return part


def without_waves(image: Array) -> Array:
    """Take the column waves of every level out of an image."""
    clean: Array = image - sum(wave_part(image, level) for level in LEVELS)
    return clean


def without_field(image: Array) -> Array:
    """Take the slow fields of every level out of an image (or out of its logarithm)."""
    (across, down, both), rows, columns = _bands(image).T, _cosines(image.shape[0]), _cosines(image.shape[1])
    clean: Array = image - across @ columns - (down @ rows)[:, None] - (rows.T * both) @ columns
    return clean


def size_band(image: Array, smallest: int, next_size: int) -> Array:
    """Bright structure that a square of side `smallest` fits into and one of side `next_size` does not.

    One bin of a granulometry: opening(smallest) minus opening(next_size). Never negative.
    """
    kept = image if smallest == 1 else ndimage.grey_opening(image, size=(smallest, smallest))
    lost: Array = np.maximum(kept - ndimage.grey_opening(image, size=(next_size, next_size)), 0.0)
    return lost
