"""Synthesis: restore the resolution that an image has lost.

Kinds and methods: a blurred image is deconvolved, one of coarse blocks gets a spline through the block means, one with
rows left out is interpolated between the rows that are there, and a ghost of undersampling (a faint copy, displaced by
a fraction of the height) is unfolded. The level is the width of the blur, the side of a block, the spacing of the rows
or the fraction of the height.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import fft, ndimage

from ._words import LEVELS, Array, Measured
from .image_form import image_form
from .skill import TrackSkill

__all__ = ["METHODS", "SKILL", "degrade", "frequencies", "measure", "process", "residual", "spectrum_law"]

METHODS = {"blur": "deconvolve", "blocks": "spline", "rows": "interpolate", "ghost": "unfold"}
"""Kind to the method that restores it."""

BLUR = {"1": 0.8, "2": 1.4, "3": 2.2}
"""Level to the standard deviation of a Gaussian blur, in pixels."""

STEPS = {"1": 2, "2": 3, "3": 4}
"""Level to the side of a block, or the spacing of the rows that are there, in pixels."""

FRACTIONS = {"1": 2, "2": 3, "3": 4}
"""Level to the part of the height by which a ghost is displaced."""

GHOST = 0.5
"""Strength of a ghost beside the image."""

NOISE_SHARE = 1e-3
"""Regularisation of the deconvolution: noise over signal power."""

EMPTY, EQUAL = 0.02, 1e-4
"""Largest grey value of a row that was left out, and largest difference of pixels that are the same."""

BAND = (0.03, 0.16)
"""Frequencies, in cycles a pixel, from which the width of a blur is read."""

LEAST_BLUR, LEAST_GHOST = 0.55, 0.12
"""Least width in pixels, and least cepstral peak, to be called blur or ghost."""

BACK_PROJECTIONS = 4


def frequencies(shape: tuple[int, ...]) -> Array:
    """Radial frequency of every coefficient of a cosine transform, in cycles a pixel."""
    down = np.arange(shape[0])[:, None] / (2.0 * shape[0])
    across = np.arange(shape[1])[None, :] / (2.0 * shape[1])
    radius: Array = np.hypot(down, across)
    return radius


def spectrum_law(radius: Array) -> Array:
    """Amplitude of a sharp image at a radial frequency, up to a factor: flat, then falling with the frequency."""
    law: Array = 1.0 / (1.0 + (radius / 0.04) ** 2) ** 0.8
    return law


def _transfer(shape: tuple[int, ...], sigma: float) -> Array:
    """What a Gaussian blur with mirrored borders leaves of every coefficient of the cosine transform."""
    passing: Array = np.exp(-2.0 * (np.pi * sigma * frequencies(shape)) ** 2)
    return passing


def block_means(image: Array, side: int) -> Array:
    """Means of the blocks of `side` by `side` pixels, [blocks down, blocks across]; the last ones may be smaller."""
    rows, columns = (np.arange(0, size, side) for size in image.shape)
    sums = np.add.reduceat(np.add.reduceat(image, rows, axis=0), columns, axis=1)
    areas = np.outer(np.diff(np.append(rows, image.shape[0])), np.diff(np.append(columns, image.shape[1])))
    means: Array = sums / areas
    return means


def _spread(means: Array, shape: tuple[int, ...], side: int) -> Array:
    """Every block mean over its block."""
    return np.repeat(np.repeat(means, side, axis=0), side, axis=1)[: shape[0], : shape[1]]


def degrade(image: Array, kind: str, level: str) -> Array:
    """A sharp image as it looks after the loss of a kind and level.

    Raises:
        KeyError: an unknown kind or level.
    """
    if kind == "rows":
        there = np.arange(image.shape[0])[:, None] % STEPS[level] == 0
        return np.where(there, image, 0.0)
    if kind == "blocks":
        return _spread(block_means(image, STEPS[level]), image.shape, STEPS[level])
    if kind == "ghost":
        copy = np.roll(image, image.shape[0] // FRACTIONS[level], axis=0)
        return (image + GHOST * copy) / (1.0 + GHOST)
    blurred: Array = fft.idctn(fft.dctn(image, norm="ortho") * _transfer(image.shape, BLUR[level]), norm="ortho")
    return blurred


def deconvolve(image: Array, level: str) -> Array:
    """Wiener filter for a Gaussian blur, with the same noise share at every frequency."""
    passing = _transfer(image.shape, BLUR[level])
    inverse = passing / (passing**2 + NOISE_SHARE)
    sharp: Array = fft.idctn(fft.dctn(image, norm="ortho") * inverse * (1.0 + NOISE_SHARE), norm="ortho")
    return sharp


def spline(image: Array, level: str) -> Array:
    """Cubic spline through the block means, corrected until it has these block means (iterated back-projection)."""
    side = STEPS[level]
    means = block_means(image, side)
    smooth = np.zeros(image.shape)
    for _ in range(BACK_PROJECTIONS):
        smooth = smooth + _enlarged(means - block_means(smooth, side), image.shape, side)
    return smooth


def _enlarged(means: Array, shape: tuple[int, ...], side: int) -> Array:
    centres = [(np.arange(size) - (side - 1) / 2.0) / side for size in shape]
    enlarged: Array = ndimage.map_coordinates(means, np.meshgrid(*centres, indexing="ij"), order=3, mode="nearest")
    return enlarged


def interpolate(image: Array, level: str) -> Array:
    """Cubic spline down the columns, through every row that is there at the level's spacing."""
    step = STEPS[level]
    places = np.meshgrid(np.arange(image.shape[0]) / step, np.arange(image.shape[1]), indexing="ij")
    filled: Array = ndimage.map_coordinates(image[::step], places, order=3, mode="nearest")
    return filled


def unfold(image: Array, level: str) -> Array:
    """Divide the displaced copy out of the spectrum of the columns."""
    shift = image.shape[0] // FRACTIONS[level]
    turn = np.exp(-2j * np.pi * shift * np.fft.fftfreq(image.shape[0]))[:, None]
    clean: Array = np.real(np.fft.ifft(np.fft.fft(image, axis=0) * (1.0 + GHOST) / (1.0 + GHOST * turn), axis=0))
    return clean


def process(image: Array, method: str, level: str) -> Array:
    """Run one method on one image in display polarity; the result is clipped to [0, 1].

    Raises:
        KeyError: an unknown method or level.
    """
    run = {"deconvolve": deconvolve, "spline": spline, "interpolate": interpolate, "unfold": unfold}[method]
    out: Array = np.clip(run(image, level), 0.0, 1.0)
    return out


def blur_width(image: Array) -> float:
    """Signed square root of the variance, in pixels squared, of the Gaussian blur that a sharp image would have passed.

    The slope of the logarithmic spectrum, beside that of a sharp image, against the squared frequency; negative where
    fine detail is stronger than in a sharp image.
    """
    radius = frequencies(image.shape)
    band = (radius > BAND[0]) & (radius < BAND[1])
    power = fft.dctn(image, norm="ortho")[band] ** 2 / spectrum_law(radius[band]) ** 2
    squares = radius[band] ** 2
    rings = np.digitize(squares, np.quantile(squares, np.linspace(0, 1, 9)[1:-1]))
    heights = [np.log(power[rings == ring].mean() + 1e-12) for ring in range(8)]
    places = [squares[rings == ring].mean() for ring in range(8)]
    variance = -np.polyfit(places, heights, 1)[0] / (4.0 * np.pi**2)
    return float(np.sign(variance) * np.sqrt(abs(variance)))


def ghost_peaks(image: Array) -> dict[str, float]:
    """Level to the height of the cepstral peak, averaged over the columns, at its displacement."""
    spectrum = np.log(np.abs(np.fft.fft(image - image.mean(axis=0), axis=0)[1:]) + 1e-6)
    cepstrum = np.real(np.fft.ifft(np.vstack([spectrum.mean(axis=0), spectrum]).mean(axis=1)))
    around = np.median(cepstrum[10:33])
    return {level: float(cepstrum[image.shape[0] // part] - around) for level, part in FRACTIONS.items()}


def rows_spacing(image: Array) -> str:
    """The level whose rows are there and the others empty; nothing where no row is empty."""
    empty = np.median(image, axis=1) < EMPTY
    for level, step in STEPS.items():
        expected = np.arange(image.shape[0]) % step != 0
        if np.array_equal(empty, expected):
            return level
    return ""


def block_side(image: Array) -> str:
    """The level of the largest blocks whose pixels are the same, but for a few; nothing where there are none."""
    for level, side in sorted(STEPS.items(), reverse=True):
        if np.mean(np.abs(image - _spread(block_means(image, side), image.shape, side)) < EQUAL) > 0.6:
            return level
    return ""


def measure(images: Sequence[Array]) -> Measured:
    """Name what a set of images in display polarity has lost; empty where nothing is found."""
    for kind, find in (("rows", rows_spacing), ("blocks", block_side)):
        found = [find(image) for image in images]
        level = max(LEVELS, key=found.count)
        if 2 * found.count(level) > len(images):
            return Measured(kind, level)
    peaks = [ghost_peaks(image) for image in images]
    heights = {level: float(np.median([peak[level] for peak in peaks])) for level in LEVELS}
    level = max(LEVELS, key=lambda name: heights[name])
    if heights[level] > LEAST_GHOST:
        return Measured("ghost", level)
    width = float(np.median([blur_width(image) for image in images]))
    if width < LEAST_BLUR:
        return Measured("", "")
    return Measured("blur", min(LEVELS, key=lambda name: abs(np.log(width / BLUR[name]))))


def residual(images: Sequence[Array], method: str, level: str) -> str:
    """What the images have lost and this method at this level does not restore; empty when it does."""
    lost = measure(images)
    return "" if not lost.kind or (METHODS[lost.kind], lost.level) == (method, level) else lost.kind


SKILL = TrackSkill(
    methods=METHODS,
    form=image_form("synthesis.npy"),
    measure=lambda cases, _: measure([case.pixels for case in cases]),
    process=lambda case, method, level, _: process(case.pixels, method, level).astype(np.float32),
    residual=lambda cases, outputs, method, level, _: residual([case.pixels for case in cases], method, level),
    faults=("none", "axes", "spacing", "shape", "corrupt"),
    bright_stays_bright=True,
)
