"""Detection: box the lesions of one shape and size with the matched filter that fits how they show.

Kinds and methods: a nodule is a disc, a cavity a ring, a calcification a cluster of dots, a spiculated lesion a star of
thin arms. The level is the size class. A filter answers with the normalised cross-correlation (Lewis, "Fast normalized
cross-correlation", 1995), so that brightness and contrast of the tissue do not matter; one of another shape or size
stays below the threshold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
import numpy.typing as npt
from scipy import fft, ndimage

from ._words import COLUMNS, LEVELS, ROWS, Array, Measured
from .box_form import Boxes, box_form
from .case import Case
from .skill import TrackSkill

__all__ = ["METHODS", "RADII", "SKILL", "box_at", "lesion", "measure", "process", "residual"]

METHODS = {"nodule": "disc", "cavity": "annulus", "calcification": "dots", "spiculation": "arms"}
"""Kind to the method that finds it."""

RADII = {"1": 3, "2": 5, "3": 8}
"""Level to the radius of a lesion in pixels; its box is twice that and one pixel wide."""

MARGIN = 2
"""Pixels around a lesion that belong to the filter, and are dark in it."""

REACH = max(RADII.values()) + MARGIN
SIZE = (fft.next_fast_len(ROWS + 2 * REACH, real=True), fft.next_fast_len(COLUMNS + 2 * REACH, real=True))
"""How far the largest filter reaches, and the size of the transforms, in pixels."""

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


@cache
def _pattern(kind: str, level: str) -> tuple[npt.NDArray[np.complex128], float]:
    """Conjugate spectrum of a lesion without its mean, and its norm."""
    pattern = lesion(kind, level) - lesion(kind, level).mean()
    return np.conj(fft.rfft2(pattern, SIZE)), float(np.sqrt(np.sum(pattern**2)))


@dataclass(frozen=True)
class _Searched:
    """An image that filters are run over.

    Args:
        image: [rows, columns].
    """

    image: Array

    @cached_property
    def _spectrum(self) -> npt.NDArray[np.complex128]:
        spectrum: npt.NDArray[np.complex128] = fft.rfft2(np.pad(self.image, REACH, mode="edge"), SIZE)
        return spectrum

    def alike(self, kind: str, level: str) -> Array:
        """Normalised cross-correlation with a lesion at every pixel, in [-1, 1]; 0 where the image is flat."""
        spectrum, norm = _pattern(kind, level)
        side = lesion(kind, level).shape[0]
        first = REACH - side // 2
        answer = fft.irfft2(self._spectrum * spectrum, SIZE)[first:, first:][
            : self.image.shape[0], : self.image.shape[1]
        ]
        mean = ndimage.uniform_filter(self.image, side, mode="nearest")
        power = ndimage.uniform_filter(self.image**2, side, mode="nearest") - mean**2
        alike: Array = np.zeros(self.image.shape)
        np.divide(answer, np.sqrt(np.maximum(power, FLAT**2)) * side * norm, out=alike, where=power > FLAT**2)
        return alike


def _found(image: Array, kind: str, level: str) -> list[tuple[int, int, float]]:
    """Row, column and correlation of every peak that is high enough and lies well inside the image."""
    radius = RADII[level]
    alike = _Searched(image).alike(kind, level)
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
    searched = [_Searched(image) for image in images]
    answers = {
        (kind, level): float(np.median([image.alike(kind, level).max() for image in searched]))
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
