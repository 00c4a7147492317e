"""Small signal tools that methods and estimators share: column waves, slow fields, dots and blots of one size."""

from __future__ import annotations

import numpy as np
from scipy import fft, ndimage

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


def profile_wave(image: Array, level: str) -> complex:
    """Complex amplitude of the column profile at the level's frequency; its modulus is in pixel units."""
    profile = image.mean(axis=0)
    columns = np.arange(profile.size)
    wave = np.exp(-2j * np.pi * WAVE_CYCLES[level] * columns / profile.size)
    return complex(2.0 * np.mean(profile * wave))


def wave_part(image: Array, level: str) -> Array:
    """The column wave of that frequency in an image, [1, columns], in pixel units."""
    columns = np.arange(image.shape[1])
    phase = np.exp(2j * np.pi * WAVE_CYCLES[level] * columns / image.shape[1])
    part: Array = np.real(profile_wave(image, level) * phase)[None, :]
    return part


def field_band(image: Array, level: str) -> Array:
    """The three cosine coefficients of order `level` (across, down, diagonal), scaled to pixel amplitude."""
    order = int(level)
    spectrum = fft.dctn(image, norm="ortho")
    scale = np.sqrt(np.array([2.0, 2.0, 4.0]) / image.size)
    band: Array = np.array([spectrum[0, order], spectrum[order, 0], spectrum[order, order]]) * scale
    return band


def field_part(shape: tuple[int, int], level: str, band: Array) -> Array:
    """The slow field with the given three amplitudes, in pixel units; the inverse of `field_band`."""
    order = int(level)
    down = np.cos(np.pi * order * (np.arange(shape[0]) + 0.5) / shape[0])[:, None]
    across = np.cos(np.pi * order * (np.arange(shape[1]) + 0.5) / shape[1])[None, :]
    part: Array = band[0] * across + band[1] * down + band[2] * down * across
    return part


def without_waves(image: Array) -> Array:
    """Take the column waves of every level out of an image."""
    for level in LEVELS:
        image = image - wave_part(image, level)
    return image


def without_field(image: Array) -> Array:
    """Take the slow fields of every level out of an image (or out of its logarithm)."""
    for level in LEVELS:
        image = image - field_part(image.shape, level, field_band(image, level))
    return image


def size_band(image: Array, smallest: int, next_size: int) -> Array:
    """Bright structure that a square of side `smallest` fits into and one of side `next_size` does not.

    One bin of a granulometry: opening(smallest) minus opening(next_size). Never negative.
    """
    kept = image if smallest == 1 else ndimage.grey_opening(image, size=(smallest, smallest))
    lost: Array = np.maximum(kept - ndimage.grey_opening(image, size=(next_size, next_size)), 0.0)
    return lost
