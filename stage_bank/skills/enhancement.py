"""Enhancement: name the artefact of an image and remove it.

Kinds and methods: gaussian noise is smoothed, impulses (blots) take the median of their clean neighbours, stripes are
notched out of the column profile, shading is divided out. The level is the strength of noise, the side of a blot in
pixels, the spacing of stripes or the order of the shading.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view
from scipy import ndimage

from ._patterns import field_band, field_part, profile_wave, wave_part, without_field
from ._words import LEVELS, Array, Measured
from .image_form import image_form
from .skill import TrackSkill

__all__ = ["METHODS", "NOISE", "SKILL", "blots", "measure", "noise_strength", "process", "residual"]

METHODS = {"gaussian": "smooth", "impulse": "median", "stripe": "destripe", "shading": "flatten"}
"""Kind to the method that removes it."""

NOISE = {"1": 0.02, "2": 0.055, "3": 0.11}
"""Level to standard deviation of gaussian noise."""

SMOOTHING = {"1": 0.6, "2": 1.3, "3": 2.6}
BLOT_SHARE, WAVE_AMPLITUDE, FIELD_AMPLITUDE, NOISE_FLOOR = 0.057, 0.03, 0.12, 0.012
"""What an image must show at least to be called impulse, stripe, shading or gaussian."""

EXCESS = 1.08
"""Removed over present noise (standard deviations) above which detail went with the noise."""

Mask = npt.NDArray[np.bool_]


def blots(image: Array, level: str) -> Mask:
    """Saturated pixels (above 0.92 or below 0.08) in squares of exactly `level` pixels a side."""
    side = int(level)
    found = np.zeros(image.shape, dtype=bool)
    for extreme in (image > 0.92, image < 0.08):
        kept = _opened(extreme, side)
        found |= kept & ~_opened(extreme, side + 1)
    return found


def _opened(mask: Mask, side: int) -> Mask:
    return mask if side == 1 else ndimage.grey_opening(mask.view(np.uint8), size=(side, side)).view(bool)


def noise_strength(image: Array) -> float:
    """Standard deviation of white noise from the second differences in both directions.

    The mask [[1, -2, 1], [-2, 4, -2], [1, -2, 1]] is blind to smooth structure and has squared norm 36 (Immerkaer,
    "Fast noise variance estimation", 1996); the median absolute deviation makes it blind to edges as well.
    """
    rows = image[:-2] - 2.0 * image[1:-1] + image[2:]
    both = rows[:, :-2] - 2.0 * rows[:, 1:-1] + rows[:, 2:]
    return float(np.median(np.abs(both)) / (0.6745 * 6.0))


def smooth(image: Array, level: str) -> Array:
    """Local mean, except where the local variance is far above the level's noise (Lee, 1980)."""
    noise = NOISE[level] ** 2
    mean = ndimage.gaussian_filter(image, SMOOTHING[level], mode="nearest")
    spread = ndimage.uniform_filter((image - mean) ** 2, 5, mode="nearest")
    keep = np.clip((spread - 1.5 * noise) / np.maximum(spread, 1e-9), 0.0, 1.0)
    out: Array = mean + keep * (image - mean)
    return out


def median(image: Array, level: str) -> Array:
    """Replace blots of the level's size by the median of the clean pixels around them (switching median)."""
    bad = blots(image, level)
    if not bad.any() or bad.all():
        return image
    reach = 2 * int(level)
    padded = np.pad(np.where(bad, np.inf, image), reach, constant_values=np.inf)
    around = np.sort(sliding_window_view(padded, (2 * reach + 1,) * 2)[bad].reshape(int(bad.sum()), -1), axis=1)
    clean = np.isfinite(around).sum(axis=1)
    out = image.copy()
    values = around[np.arange(clean.size), np.maximum(clean - 1, 0) // 2]
    out[bad] = np.where(clean > 0, values, image[bad])
    return out


def destripe(image: Array, level: str) -> Array:
    """Subtract the column wave at the level's spacing."""
    out: Array = image - wave_part(image, level)
    return out


def flatten(image: Array, level: str) -> Array:
    """Divide by the multiplicative slow field of the level's order, found in the logarithm."""
    logarithm = np.log(np.maximum(image, 1e-3))
    out: Array = image / np.exp(field_part(image.shape, level, field_band(logarithm, level)))
    return out


def process(image: Array, method: str, level: str) -> Array:
    """Run one method on one image in display polarity; the result is clipped to [0, 1].

    Raises:
        KeyError: an unknown method or level.
    """
    run = {"smooth": smooth, "median": median, "destripe": destripe, "flatten": flatten}[method]
    out: Array = np.clip(run(image, level), 0.0, 1.0)
    return out


def measure(images: Sequence[Array]) -> Measured:
    """Name the dominant artefact of a set of images in display polarity; empty where none stands out."""
    share = {level: float(np.median([blots(image, level).mean() for image in images])) for level in LEVELS}
    level = max(LEVELS, key=lambda name: share[name])
    if share[level] > BLOT_SHARE:
        return Measured("impulse", level)
    logs = [np.log(np.maximum(image, 1e-3)) for image in images]
    even = [np.exp(without_field(log)) for log in logs]
    wave = {level: float(np.median([abs(profile_wave(image, level)) for image in even])) for level in LEVELS}
    level = max(LEVELS, key=lambda name: wave[name])
    if wave[level] > WAVE_AMPLITUDE:
        return Measured("stripe", level)
    field = {name: float(np.median([np.linalg.norm(field_band(log, name)) for log in logs])) for name in LEVELS}
    level = max(LEVELS, key=lambda name: field[name])
    if field[level] > FIELD_AMPLITUDE:
        return Measured("shading", level)
    noise = float(np.median([noise_strength(image) for image in images]))
    if noise < NOISE_FLOOR:
        return Measured("", "")
    return Measured("gaussian", min(LEVELS, key=lambda name: abs(np.log(noise / NOISE[name]))))


def residual(images: Sequence[Array], outputs: Sequence[Array]) -> str:
    """What is still wrong with the outputs, judged without a reference; empty when nothing stands out.

    A kind that remains is named; `detail` says that more was smoothed away than the noise that was there.
    """
    remains = measure(outputs).kind
    if remains:
        return remains
    removed = float(np.median([np.std(after - before) for before, after in zip(images, outputs, strict=True)]))
    there = float(np.median([noise_strength(image) for image in images]))
    return "detail" if measure(images).kind == "gaussian" and removed > EXCESS * there else ""


SKILL = TrackSkill(
    methods=METHODS,
    form=image_form("enhanced.npy"),
    measure=lambda cases, _: measure([case.pixels for case in cases]),
    process=lambda case, method, level, _: process(case.pixels, method, level).astype(np.float32),
    residual=lambda cases, outputs, method, level, _: residual([case.pixels for case in cases], outputs),
    bright_stays_bright=True,
)
