"""Polygons to pixels: a pixel belongs to an area when its centre does."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["polygon_mask"]


def polygon_mask(corners: NDArray[np.float64], shape: tuple[int, int]) -> NDArray[np.bool_]:
    """The pixels whose centres lie inside a closed polygon, by the even-odd rule.

    An edge holds its upper end and not its lower one, and what lies on an edge belongs to its right side. So polygons
    that share an edge share no pixel and leave none between them.

    Args:
        corners: `[corners, 2]`, row and column, closed by itself; the centre of the first pixel is (0, 0).
        shape: rows and columns.

    Returns:
        Boolean `[rows, columns]`.
    """
    rows, columns = shape
    y, x = corners[:, 0], corners[:, 1]
    y_next, x_next = np.roll(y, -1), np.roll(x, -1)
    crossings = np.zeros((rows, columns + 1), dtype=np.int64)
    for row in range(max(0, int(np.ceil(y.min()))), min(rows, int(np.floor(y.max())) + 1)):
        crossed = (y <= row) != (y_next <= row)
        start, rise = x[crossed], (row - y[crossed]) * (x_next[crossed] - x[crossed])
        at = start + rise / (y_next[crossed] - y[crossed])
        np.add.at(crossings[row], np.clip(np.ceil(at), 0, columns).astype(np.int64), 1)
    return np.asarray(np.cumsum(crossings, axis=1)[:, :columns] % 2 == 1)
