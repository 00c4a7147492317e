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
from .mask_form import mask_form
from .skill import TrackSkill

__all__ = ["AREAS", "METHODS", "RADII", "SKILL", "measure", "process", "residual"]

METHODS = {"solid": "threshold", "faint": "tophat", "dotted": "cluster", "ring": "fill"}
"""Kind to the method that finds it."""

RADII = {"1": 3.2, "2": 5.5, "3": 9.0}
"""Level to lesion radius in pixels."""

AREAS = {"1": (16, 58), "2": (59, 160), "3": (161, 420)}
"""Level to the areas, in pixels, that a lesion of that class may have."""

TOPHAT_SIDES = {"1": 8, "2": 12, "3": 23}
"""Level to the side, in pixels, of a square that a lesion of that class, on a slant, holds none of."""

CONVINCING = 0.5
"""Least evidence (see `_evidence`) for lesions to be taken for found."""

LARGEST_DOT = 6
"""Most pixels of thin structure that is still a dot and not a line."""

Mask = npt.NDArray[np.bool_]


def _threshold(image: Array) -> Mask:
    """Bright against the whole image; what has a hole is no solid lesion."""
    bright = image > 0.62
    parts, count = ndimage.label(ndimage.binary_fill_holes(bright))
    hollow = np.bincount(parts.ravel(), weights=~bright.ravel(), minlength=count + 1) > 0
    hollow[0] = True
    mask: Mask = ~hollow[parts]
    return mask


def _tophat(image: Array, level: str) -> Mask:
    """Slightly bright against a local background that the lesion does not fit into; strong objects are left out."""
    side = TOPHAT_SIDES[level]
    # Odd reflection continues a slant past the border; any even padding would raise a false rim there.
    padded = np.pad(image, side, mode="reflect", reflect_type="odd")
    above = image - ndimage.grey_opening(padded, size=(side, side))[side:-side, side:-side]
    parts, count = ndimage.label(above > 0.07)
    strength = ndimage.maximum(above, parts, index=np.arange(count + 1))
    strength[0] = np.inf
    mask: Mask = (strength < 0.28)[parts]
    return mask


def _dots(image: Array) -> tuple[Mask, Mask]:
    """Thin bright structure, apart into dots and longer lines."""
    thin = size_band(image, 1, 4) > 0.15
    parts, count = ndimage.label(thin, structure=np.ones((3, 3)))
    sizes = np.bincount(parts.ravel(), minlength=count + 1)
    sizes[0] = 0
    return ((sizes > 0) & (sizes <= LARGEST_DOT))[parts], (sizes > LARGEST_DOT)[parts]


def _cluster(image: Array) -> Mask:
    """Dots that lie close together, joined to one region half a dot spacing wider than they are."""
    dots, _ = _dots(image)
    closed = ndimage.binary_closing(np.pad(dots, 4), structure=np.ones((5, 5)))
    dense = ndimage.binary_opening(closed, structure=np.ones((3, 3)))
    mask: Mask = ndimage.binary_dilation(dense)[4:-4, 4:-4]
    return mask


def _fill(image: Array) -> Mask:
    """Thin closed lines (gaps of a pixel or two are bridged), filled; what encloses nothing is left out."""
    _, lines = _dots(image)
    lines = ndimage.binary_closing(np.pad(lines, 2), structure=np.ones((3, 3)))[2:-2, 2:-2]
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
    return _of_class(_found(image, method, level), level)


def _found(image: Array, method: str, level: str) -> Mask:
    """What a method finds, whatever its size; only the top-hat looks at the level."""
    if method == "tophat":
        return _tophat(image, level)
    return {"threshold": _threshold, "cluster": _cluster, "fill": _fill}[method](image)


def measure(images: Sequence[Array]) -> Measured:
    """The kind and size class whose method finds the roundest lesions; empty when none does in half of the images."""
    best, found = Measured("", ""), 0.0
    for kind, method in METHODS.items():
        alike = None if method == "tophat" else [_found(image, method, LEVELS[0]) for image in images]
        for level in LEVELS:
            masks = alike if alike is not None else [_found(image, method, level) for image in images]
            score = _evidence([_of_class(mask, level) for mask in masks], level)
            if score > found:
                best, found = Measured(kind, level), score
    return best if found >= CONVINCING else Measured("", "")


def _evidence(masks: Sequence[Mask], level: str) -> float:
    """Mean over the images of how well what was found agrees with discs of the level's radius, in [0, 1].

    An image counts by its worst component, and not at all with more than three.
    """
    total = 0.0
    for mask in masks:
        parts, count = ndimage.label(mask)
        if 1 <= count <= 3:
            total += min(_roundness(parts[box] == part, level) for part, box in _boxes(parts))
    return total / max(len(masks), 1)


def _boxes(parts: npt.NDArray[np.int32]) -> list[tuple[int, tuple[slice, slice]]]:
    return list(enumerate(ndimage.find_objects(parts), start=1))


def _roundness(part: Mask, level: str) -> float:
    """Overlap (intersection over union) of one component with a disc of the level's radius at its box's centre."""
    row, column = np.ogrid[: part.shape[0], : part.shape[1]]
    centre = ((part.shape[0] - 1) / 2, (part.shape[1] - 1) / 2)
    inside = (row - centre[0]) ** 2 + (column - centre[1]) ** 2 <= RADII[level] ** 2
    whole = max(np.pi * RADII[level] ** 2, float(inside.sum())) + float((part & ~inside).sum())
    return float((part & inside).sum()) / whole


def residual(images: Sequence[Array], outputs: Sequence[Mask], level: str) -> str:
    """The kind of lesion the masks miss, judged without a reference; empty when the masks show round lesions."""
    if _evidence(outputs, level) >= CONVINCING:
        return ""
    return measure(images).kind or "empty"


SKILL = TrackSkill(
    methods=METHODS,
    form=mask_form("lesion.nii.gz"),
    measure=lambda cases, _: measure([case.pixels for case in cases]),
    process=lambda case, method, level, _: process(case.pixels, method, level),
    residual=lambda cases, outputs, method, level, _: residual([case.pixels for case in cases], outputs, level),
)
