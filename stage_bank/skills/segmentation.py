"""Segmentation: find the inserted lesions of one size class with the method that fits how they show.

Kinds and methods: a solid bright lesion is thresholded, a faint one on a slanted background needs a top-hat, a dotted
one (a cluster of calcifications) is closed from its dots, a ring is filled. The level is the size class: components of
another class are dropped as something else.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy import ndimage

from ._patterns import size_band
from ._words import LEVELS, Array, Measured

__all__ = ["AREAS", "METHODS", "RADII", "measure", "process", "residual"]

METHODS = {"solid": "threshold", "faint": "tophat", "dotted": "cluster", "ring": "fill"}
"""Kind to the method that finds it."""

RADII = {"1": 3.2, "2": 5.5, "3": 9.0}
"""Level to lesion radius in pixels."""

AREAS = {"1": (16, 58), "2": (59, 160), "3": (161, 420)}
"""Level to the areas, in pixels, that a lesion of that class may have."""

Mask = npt.NDArray[np.bool_]


def _threshold(image: Array, level: str) -> Mask:
    """Bright against the whole image."""
    mask: Mask = image > 0.62
    return mask


def _tophat(image: Array, level: str) -> Mask:
    """Slightly bright against a local background wider than the lesion; strong objects (devices) are left out."""
    side = int(2 * RADII[level]) + 5
    above = image - ndimage.grey_opening(image, size=(side, side), mode="nearest")
    parts, count = ndimage.label(above > 0.07)
    strength = ndimage.maximum(above, parts, index=np.arange(count + 1))
    strength[0] = np.inf
    mask: Mask = (strength < 0.28)[parts]
    return mask


def _dots(image: Array) -> tuple[Mask, Mask]:
    """Thin bright structure, apart into single dots (up to 3 pixels) and longer lines."""
    thin = size_band(image, 1, 4) > 0.15
    parts, count = ndimage.label(thin, structure=np.ones((3, 3)))
    sizes = np.bincount(parts.ravel(), minlength=count + 1)
    sizes[0] = 0
    return ((sizes > 0) & (sizes <= 3))[parts], (sizes > 3)[parts]


def _cluster(image: Array, level: str) -> Mask:
    """Single dots closed into one region."""
    dots, _ = _dots(image)
    padded = np.pad(dots, 4)
    closed = ndimage.binary_closing(padded, structure=np.ones((4, 4)), iterations=1)
    mask: Mask = ndimage.binary_opening(closed, structure=np.ones((3, 3)))[4:-4, 4:-4]
    return mask


def _fill(image: Array, level: str) -> Mask:
    """Thin closed lines, filled; what encloses nothing is left out."""
    _, lines = _dots(image)
    filled = ndimage.binary_fill_holes(lines)
    parts, count = ndimage.label(filled)
    whole = np.bincount(parts.ravel(), minlength=count + 1)
    rim = np.bincount(parts.ravel(), weights=lines.ravel(), minlength=count + 1)
    hollow = whole > 1.2 * np.maximum(rim, 1.0)
    hollow[0] = False
    mask: Mask = hollow[parts]
    return mask


def _of_class(mask: Mask, level: str) -> Mask:
    parts, count = ndimage.label(mask)
    sizes = np.bincount(parts.ravel(), minlength=count + 1)
    sizes[0] = 0
    smallest, largest = AREAS[level]
    kept: Mask = ((sizes >= smallest) & (sizes <= largest))[parts]
    return kept


def process(image: Array, method: str, level: str) -> Mask:
    """Segment the lesions of one size class in an image in display polarity.

    Raises:
        KeyError: an unknown method or level.
    """
    find = {"threshold": _threshold, "tophat": _tophat, "cluster": _cluster, "fill": _fill}[method]
    return _of_class(find(image, level), level)


def measure(images: Sequence[Array]) -> Measured:
    """The kind and size class that shows lesions in most images; empty when none does in half of them."""
    best, found = Measured("", ""), 0.0
    for kind, method in METHODS.items():
        for level in LEVELS:
            score = _evidence([process(image, method, level) for image in images])
            if score > found:
                best, found = Measured(kind, level), score
    return best if found >= 0.5 else Measured("", "")


def _evidence(masks: Sequence[Mask]) -> float:
    """Share of images with one or two compact components."""
    hits = 0.0
    for mask in masks:
        parts, count = ndimage.label(mask)
        if 1 <= count <= 2:
            boxes = ndimage.find_objects(parts)
            area = sum((box[0].stop - box[0].start) * (box[1].stop - box[1].start) for box in boxes)
            hits += float(mask.sum() / area)
    return hits / max(len(masks), 1)


def residual(images: Sequence[Array], outputs: Sequence[Mask]) -> str:
    """The kind of lesion the masks miss, judged without a reference; empty when the masks look complete."""
    if _evidence(outputs) >= 0.5:
        return ""
    return measure(images).kind or "empty"
