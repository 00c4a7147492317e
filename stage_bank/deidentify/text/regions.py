"""Where an ultrasound device says its image is; names and settings stand outside."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pydicom.dataset import Dataset

__all__ = ["outside_regions"]

_CORNERS = ("RegionLocationMinX0", "RegionLocationMinY0", "RegionLocationMaxX1", "RegionLocationMaxY1")


def outside_regions(dataset: Dataset, rows: int, columns: int) -> NDArray[np.bool_] | None:
    """True for pixels outside every region, `[rows, columns]`; `None` when none is given or one leaves the frame."""
    inside = np.zeros((rows, columns), dtype=bool)
    regions = dataset.get("SequenceOfUltrasoundRegions")
    for region in regions if isinstance(regions, list) or hasattr(regions, "__iter__") else ():
        try:
            left, top, right, bottom = (int(region[keyword].value) for keyword in _CORNERS)
        except (KeyError, TypeError, ValueError):
            continue
        if not (0 <= left < right <= columns and 0 <= top < bottom <= rows):
            return None
        inside[top : bottom + 1, left : right + 1] = True
    return ~inside if inside.any() else None
