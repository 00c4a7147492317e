"""Rows of marks that look drawn rather than measured: text in any script, whether or not it can be read.

A device draws letters with sharp edges in one shade, while speckle and anatomy fade. So marks are taken that stand out
from their surroundings, are flat inside, and stand in a row with others of like size and shade.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

__all__ = ["crispness", "glyph_rows"]

_STROKE = 9
"""Thicker strokes than this many pixels are not letters."""
_CONTRASTS = (45.0, 90.0, 140.0)
"""Steps above the surroundings at which marks are told apart; bright text on bright tissue needs the higher ones."""
_FLAT = 0.55
_HEIGHTS = (5, 64)
_ROW = 3
_STRIP, _OVERLAP = 1024, 96
"""Rows of a strip, and rows that two strips share: more than a letter is high."""


@dataclass(frozen=True)
class _Mark:
    left: int
    top: int
    right: int
    bottom: int
    shade: float

    @property
    def height(self) -> int:
        return self.bottom - self.top


def crispness(grey: NDArray[np.uint8], box: tuple[int, int, int, int]) -> float:
    """How much a box looks like letters drawn in one shade, 0 to 1; drawn text has 0.2 and more, speckle less.

    Args:
        grey: picture `[rows, columns]`.
        box: left, top, width, height.
    """
    left, top, width, height = box
    part = grey[max(0, top - 1) : top + height + 1, max(0, left - 1) : left + width + 1].astype(np.float32)
    if part.size == 0:
        return 0.0
    low, high = (float(value) for value in np.percentile(part, (2, 98.5)))
    contrast = high - low
    if contrast < _CONTRASTS[0]:
        return 0.0
    bright = part > (low + high) / 2
    if bright.all() or not bright.any():
        return 0.0
    light = np.mean(part[bright] >= high - 0.15 * contrast)
    dark = np.mean(part[~bright] <= low + 0.15 * contrast)
    return float(light * dark)


def glyph_rows(grey: NDArray[np.uint8]) -> list[tuple[tuple[int, int, int, int], int]]:
    """Rows of at least three marks: box (left, top, width, height) and number of marks.

    Works in overlapping strips, so that a large picture needs little memory.
    """
    found = []
    for start in range(0, max(1, len(grey) - _OVERLAP), _STRIP - _OVERLAP):
        for (left, top, width, height), marks in _rows_of_strip(grey[start : start + _STRIP]):
            found.append(((left, top + start, width, height), marks))
    return found


def _rows_of_strip(grey: NDArray[np.uint8]) -> list[tuple[tuple[int, int, int, int], int]]:
    values = grey.astype(np.float32)
    size = (_STROKE, _STROKE)
    boxes = []
    for raised in (values - ndimage.grey_opening(values, size), ndimage.grey_closing(values, size) - values):
        for contrast in _CONTRASTS:
            boxes += [(_around(row), len(row)) for row in _rows(_marks(raised, contrast))]
    return boxes


def _marks(raised: NDArray[np.float32], contrast: float) -> list[_Mark]:
    labels, count = ndimage.label(raised >= contrast, structure=np.ones((3, 3)))
    if count == 0:
        return []
    index = np.arange(1, count + 1)
    shades = ndimage.maximum(raised, labels, index)
    areas = np.bincount(labels.ravel(), minlength=count + 1)[1:]
    limits = np.concatenate([[np.inf], 0.7 * shades])
    flat = np.bincount(labels.ravel(), weights=(raised >= limits[labels]).ravel(), minlength=count + 1)[1:] / areas
    marks = []
    for place, shade, area, share in zip(ndimage.find_objects(labels), shades, areas, flat, strict=True):
        (top, bottom), (left, right) = ((side.start, side.stop) for side in place)
        height, width = bottom - top, right - left
        letter = (
            _HEIGHTS[0] <= height <= _HEIGHTS[1] and width <= 4 * height and 5 <= area <= 0.85 * height * width + 12
        )
        if letter and share >= _FLAT:
            marks.append(_Mark(left, top, right, bottom, float(shade)))
    return sorted(marks, key=lambda mark: mark.left)


def _rows(marks: list[_Mark]) -> list[list[_Mark]]:
    rows: list[list[_Mark]] = []
    for mark in marks:
        fitting = next((row for row in reversed(rows) if _follows(row[-1], mark)), None)
        if fitting is None:
            rows.append([mark])
        else:
            fitting.append(mark)
    return [row for row in rows if len(row) >= _ROW]


def _follows(one: _Mark, other: _Mark) -> bool:
    low, high = sorted((one.height, other.height))
    overlap = min(one.bottom, other.bottom) - max(one.top, other.top)
    return (
        other.left - one.right <= high
        and overlap >= 0.6 * low
        and high <= 2 * low
        and abs(one.shade - other.shade) <= 0.2 * max(one.shade, other.shade)
    )


def _around(row: list[_Mark]) -> tuple[int, int, int, int]:
    left, top = row[0].left, min(mark.top for mark in row)
    return left, top, max(mark.right for mark in row) - left, max(mark.bottom for mark in row) - top
