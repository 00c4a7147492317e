"""Detection: box the lesions of one shape and size with the matched filter that fits how they show.

Kinds and methods: a nodule is a disc, a cavity a ring, a calcification a cluster of dots, a spiculated lesion a star of
thin arms. The level is the size class. A filter answers with the normalised cross-correlation (Lewis, "Fast normalized
cross-correlation", 1995), so that brightness and contrast of the tissue do not matter; one of another shape or size
stays below the threshold.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
from scipy import ndimage

from ._words import LEVELS, Array, Measured
from .box_form import Boxes, box_form
from .case import Case
from .skill import TrackSkill

__all__ = ["METHODS", "RADII", "SKILL", "box_at", "correlation", "lesion", "measure", "process", "residual"]

METHODS = {"nodule": "disc", "cavity": "annulus", "calcification": "dots", "spiculation": "arms"}
"""Kind to the method that finds it."""

RADII = {"1": 3, "2": 5, "3": 8}
"""Level to the radius of a lesion in pixels; its box is twice that and one pixel wide."""

MARGIN = 2
"""Pixels around a lesion that belong to the filter, and are dark in it."""

ALIKE = 0.72
"""Least correlation of a lesion with the filter that fits it."""

FLAT = 0.01
"""Least standard deviation, in grey values, of a window in which something can be found."""


@cache
def lesion(kind: str, level: str) -> Array:
    """What a lesion adds to the tissue, from 0 to 1, on a square of side 2 (radius + margin) + 1.

    Raises:
        KeyError: an unknown kind or level.
    """
    radius = RADII[level]
    axis = np.arange(-radius - MARGIN, radius + MARGIN + 1)
    down, across = axis[:, None], axis[None, :]
    distance = np.hypot(down, across)
    inside = distance <= radius + 0.3
    shapes = {
        "nodule": inside,
        "cavity": inside & (distance > radius - 1.3),
        "calcification": inside & (down % 2 == radius % 2) & (across % 2 == radius % 2),
        "spiculation": inside & ((down == 0) | (across == 0) | (np.abs(down) == np.abs(across))),
    }
    shape: Array = shapes[kind].astype(np.float64)
    return shape


def correlation(image: Array, kind: str, level: str) -> Array:
    """Normalised cross-correlation of the image with a lesion at every pixel, in [-1, 1]; 0 where the image is flat."""
    shape = lesion(kind, level)
    pattern = shape - shape.mean()
    mean = ndimage.uniform_filter(image, shape.shape[0], mode="nearest")
    power = ndimage.uniform_filter(image**2, shape.shape[0], mode="nearest") - mean**2
    spread = np.sqrt(np.maximum(power, 0.0)) * np.sqrt(shape.size * np.sum(pattern**2))
    alike: Array = np.zeros(image.shape)
    np.divide(ndimage.correlate(image, pattern, mode="nearest"), spread, out=alike, where=power > FLAT**2)
    return alike


def _found(image: Array, kind: str, level: str) -> list[tuple[int, int, float]]:
    """Row, column and correlation of every peak that is high enough and lies well inside the image."""
    radius = RADII[level]
    alike = correlation(image, kind, level)
    peaks = (alike == ndimage.maximum_filter(alike, 2 * radius + 1)) & (alike >= ALIKE)
    peaks[:radius] = peaks[image.shape[0] - radius :] = False
    peaks[:, :radius] = peaks[:, image.shape[1] - radius :] = False
    return [(int(row), int(column), float(alike[row, column])) for row, column in np.argwhere(peaks)]


def process(image: Array, method: str, level: str, label: str) -> Boxes:
    """Box the lesions of one shape and size in an image in display polarity.

    Raises:
        KeyError: an unknown method or level.
    """
    kind = {method: kind for kind, method in METHODS.items()}[method]
    peaks = sorted(_found(image, kind, level), key=lambda peak: -peak[2])
    return tuple((label, *box_at(row, column, level), round(alike, 4)) for row, column, alike in peaks)


def box_at(row: int, column: int, level: str) -> tuple[float, float, float, float]:
    """x1, y1, x2, y2 of a lesion that is centred on a pixel."""
    before, after = RADII[level], RADII[level] + 1
    return float(column - before), float(row - before), float(column + after), float(row + after)


def measure(images: Sequence[Array]) -> Measured:
    """The shape and size whose filter is answered best; empty when none is answered well enough in most images."""
    answers = {
        (kind, level): float(np.median([correlation(image, kind, level).max() for image in images]))
        for kind in METHODS
        for level in LEVELS
    }
    kind, level = max(answers, key=answers.__getitem__)
    return Measured(kind, level) if answers[kind, level] >= ALIKE else Measured("", "")


def residual(images: Sequence[Array], outputs: Sequence[Boxes], method: str, level: str) -> str:
    """The kind of lesion that is missed, judged without a reference; `empty` when nothing was found."""
    seen = measure(images)
    if seen.kind and (METHODS[seen.kind], seen.level) != (method, level):
        return seen.kind
    return "" if all(outputs) else "empty"


def _boxes(case: Case, method: str, level: str) -> Boxes:
    return process(case.pixels, method, level, str(case.header["LabelMap"]["1"]))


SKILL = TrackSkill(
    methods=METHODS,
    form=box_form("prediction.json"),
    measure=lambda cases, _: measure([case.pixels for case in cases]),
    process=lambda case, method, level, _: _boxes(case, method, level),
    residual=lambda cases, outputs, method, level, _: residual([c.pixels for c in cases], outputs, method, level),
    faults=("none", "axes", "nan", "invert", "spacing", "shape", "corrupt", "labels"),
)
