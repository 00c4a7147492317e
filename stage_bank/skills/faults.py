"""What may be wrong with a case against its header, how each fault shows, and how it is mended.

A fault shows in the pixels and in public header fields alone. `FAULTS` is in order of search: the first that shows is
the one that is named. Which of them occur on a track is said by its `TrackSkill.faults`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy import ndimage

from ._words import POLARITY_CHOICE, Array, SkillError
from .case import SPARE, Case, display, polarity_of, read_pixels

__all__ = [
    "FAULTS",
    "LABEL_MAP",
    "NOMINAL_SPACING",
    "Fault",
    "find_fault",
    "load",
    "load_right",
    "mend",
]

PLAUSIBLE = 4.0
"""Largest absolute pixel value of an image stored in the right unit (nominal range [0, 1])."""

NOMINAL_SPACING = (1.0, 1.0)
"""PixelSpacing, in mm down and across, of a case on the grid of its Rows and Columns."""

LABEL_MAP = {"0": "background", "1": "finding"}
"""What the numbers of a label map stand for."""

EXTREMES = ("SmallestImagePixelValue", "LargestImagePixelValue")
CLEARER = 0.02
"""How much better, in grey values, inverted pixels must meet the stated extremes to be called inverted."""


@dataclass(frozen=True)
class Fault:
    """One fault.

    Args:
        shows: whether a case shows it.
        mend: the case as it would be without it; a case without the fault may come out spoilt.
    """

    shows: Callable[[Case], bool]
    mend: Callable[[Case], Case]


def fill_missing(pixels: Array) -> Array:
    """Replace non-finite pixels by the nearest finite one (exact Euclidean distance transform)."""
    missing = ~np.isfinite(pixels)
    if not missing.any() or missing.all():
        return pixels
    nearest = ndimage.distance_transform_edt(missing, return_distances=False, return_indices=True)
    filled: Array = pixels[tuple(nearest)]
    return filled


def _expected(case: Case) -> tuple[int, int]:
    return int(case.header["Rows"]), int(case.header["Columns"])


def _from_spare(case: Case) -> Case:
    try:
        return replace(case, pixels=read_pixels(case.extra[SPARE]))
    except (KeyError, ValueError, EOFError):
        return case


def _spacing(case: Case) -> tuple[float, ...]:
    stated = case.header.get("PixelSpacing", NOMINAL_SPACING)
    return tuple(float(side) for side in stated) if isinstance(stated, list | tuple) else ()


def _resample(case: Case) -> Case:
    """Mean over the pixels that lie in one pixel of the nominal spacing."""
    spacing, (rows, columns) = _spacing(case), case.pixels.shape
    if len(spacing) != 2 or min(spacing) <= 0:
        return case
    down, across = (max(round(wanted / given), 1) for wanted, given in zip(NOMINAL_SPACING, spacing, strict=True))
    blocks = case.pixels[: rows // down * down, : columns // across * across]
    means = blocks.reshape(rows // down, down, columns // across, across).mean(axis=(1, 3))
    return replace(case, pixels=means, header={**case.header, "PixelSpacing": list(NOMINAL_SPACING)})


def _cropped(case: Case) -> Case:
    rows, columns = _expected(case)
    return replace(case, pixels=case.pixels[:rows, :columns])


def _inverted(case: Case) -> bool:
    """Whether the stated extremes fit the pixels worse than they fit inverted pixels."""
    if not all(name in case.header for name in EXTREMES):
        return False
    smallest, largest = (float(case.header[name]) for name in EXTREMES)
    low, high = float(case.pixels.min()), float(case.pixels.max())
    as_it_is = abs(low - smallest) + abs(high - largest)
    turned = abs(1.0 - high - smallest) + abs(1.0 - low - largest)
    return turned + CLEARER < as_it_is


def _scaled(case: Case) -> Case:
    return replace(case, pixels=case.pixels * float(case.header["RescaleSlope"]))


def _relabelled(case: Case) -> Case:
    return replace(case, header={**case.header, "LabelMap": LABEL_MAP})


FAULTS: Mapping[str, Fault] = {
    "corrupt": Fault(lambda case: case.pixels.size == 0, _from_spare),
    "spacing": Fault(lambda case: _spacing(case) != NOMINAL_SPACING, _resample),
    "axes": Fault(
        lambda case: case.pixels.shape == _expected(case)[::-1] != _expected(case),
        lambda case: replace(case, pixels=case.pixels.T),
    ),
    "shape": Fault(lambda case: case.pixels.shape != _expected(case), _cropped),
    "nan": Fault(
        lambda case: not np.isfinite(case.pixels).all(), lambda case: replace(case, pixels=fill_missing(case.pixels))
    ),
    "scale": Fault(lambda case: float(np.abs(case.pixels).max()) > PLAUSIBLE, _scaled),
    "invert": Fault(_inverted, lambda case: replace(case, pixels=1.0 - case.pixels)),
    "labels": Fault(lambda case: case.header.get("LabelMap", LABEL_MAP) != LABEL_MAP, _relabelled),
}
"""Corrupt file, wrong spacing, swapped axes, shape mismatch, NaN, wrong unit, inverted intensity, wrong label map."""


def find_fault(case: Case) -> str:
    """Name the fault that a case shows, `none` when there is none."""
    return next((name for name, fault in FAULTS.items() if fault.shows(case)), "none")


def mend(case: Case, repair: str) -> Case:
    """Load a case with one repair and make sure that it loads right.

    Args:
        case: as stored.
        repair: `none` or the name of a fault.

    Returns:
        The case with finite pixels of the header's shape and in the nominal unit.

    Raises:
        SkillError: a fault remains, or the repair mends nothing.
    """
    present = find_fault(case)
    mended = FAULTS[repair].mend(case) if repair in FAULTS else case
    remains = find_fault(mended)
    if remains != "none":
        raise SkillError(f"fault remains {remains}")
    if repair not in ("none", present):
        raise SkillError(f"repair {repair} not needed")
    return mended


def load(case: Case, repair: str, polarity: str) -> Case:
    """A case mended with one repair and displayed in one polarity.

    Raises:
        SkillError: as for `mend`.
    """
    mended = mend(case, repair)
    return replace(mended, pixels=display(mended.pixels, polarity))


def load_right(case: Case) -> Case:
    """A case with the repair and the polarity that it asks for itself."""
    return load(case, find_fault(case), POLARITY_CHOICE[polarity_of(case.header)])
