"""Read a case, see what is wrong with it, mend it.

A case is `image.npy` plus `header.json` with the DICOM names Rows, Columns, PhotometricInterpretation, RescaleSlope and
PatientOrientation. Three faults occur: the pixel array is transposed against Rows and Columns (`axes`), it holds
non-finite pixels (`nan`), or it is stored in another unit that RescaleSlope undoes (`scale`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import ndimage

from ._words import Array, SkillError

__all__ = ["Case", "display", "fill_missing", "find_fault", "mend", "read_case"]

PLAUSIBLE = 4.0
"""Largest absolute pixel value of an image stored in the right unit (nominal range [0, 1])."""


@dataclass(frozen=True)
class Case:
    """One case as stored.

    Args:
        name: folder name.
        stored: pixels as they lie on disk, two dimensions.
        header: public header fields.
    """

    name: str
    stored: Array
    header: Mapping[str, Any]


def read_case(folder: Path) -> Case:
    """Read `image.npy` and `header.json`.

    Raises:
        SkillError: a file is missing, damaged or not a two-dimensional image.
    """
    try:
        stored = np.load(folder / "image.npy", allow_pickle=False)
        header = json.loads((folder / "header.json").read_text())
        if stored.ndim != 2 or stored.dtype.kind not in "fiu" or not isinstance(header, dict):
            raise ValueError("not an image")
        int(header["Rows"]), int(header["Columns"]), float(header["RescaleSlope"])
    except (OSError, ValueError, KeyError, TypeError, EOFError) as error:
        raise SkillError(f"case {folder.name} unreadable") from error
    return Case(name=folder.name, stored=stored.astype(np.float64), header=header)


def find_fault(pixels: Array, header: Mapping[str, Any]) -> str:
    """Name the fault that pixels show against their header: `none`, `axes`, `nan` or `scale`."""
    expected = (int(header["Rows"]), int(header["Columns"]))
    if pixels.shape != expected:
        return "axes"
    if not np.isfinite(pixels).all():
        return "nan"
    return "scale" if float(np.abs(pixels).max()) > PLAUSIBLE else "none"


def fill_missing(pixels: Array) -> Array:
    """Replace non-finite pixels by the nearest finite one (exact Euclidean distance transform)."""
    missing = ~np.isfinite(pixels)
    if not missing.any() or missing.all():
        return pixels
    nearest = ndimage.distance_transform_edt(missing, return_distances=False, return_indices=True)
    filled: Array = pixels[tuple(nearest)]
    return filled


def mend(case: Case, repair: str) -> Array:
    """Load a case with one repair and make sure that it loads right.

    Args:
        case: as stored.
        repair: `none`, `axes` (transpose), `nan` (fill) or `scale` (apply RescaleSlope).

    Returns:
        Finite pixels of the header's shape and in the nominal unit.

    Raises:
        SkillError: the fault remains, or the repair mends nothing.
    """
    present = find_fault(case.stored, case.header)
    if repair == "axes":
        pixels = case.stored.T
    elif repair == "nan":
        pixels = fill_missing(case.stored)
    elif repair == "scale":
        pixels = case.stored * float(case.header["RescaleSlope"])
    else:
        pixels = case.stored
    remains = find_fault(pixels, case.header)
    if remains != "none":
        raise SkillError(f"fault remains {remains}")
    if repair not in ("none", present):
        raise SkillError(f"repair {repair} not needed")
    return pixels


def display(pixels: Array, polarity: str) -> Array:
    """Pixels with bright meaning bright: `keep` leaves them, `invert` gives 1 - pixels."""
    return 1.0 - pixels if polarity == "invert" else pixels


def polarity_of(header: Mapping[str, Any]) -> str:
    """`inverted` for MONOCHROME1, else `normal` (DICOM PS3.3 C.7.6.3.1.2)."""
    return "inverted" if header.get("PhotometricInterpretation") == "MONOCHROME1" else "normal"
