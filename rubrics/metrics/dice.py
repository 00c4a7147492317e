"""Overlap of two masks."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["dice"]


def dice(mask: npt.ArrayLike, reference: npt.ArrayLike) -> float:
    """Dice coefficient 2|A∩B| / (|A|+|B|) (Dice, 1945); 1 when both masks are empty.

    Args:
        mask: boolean, any shape.
        reference: boolean, same shape.

    Raises:
        ValueError: shapes differ.
    """
    a, b = np.asarray(mask, dtype=bool), np.asarray(reference, dtype=bool)
    if a.shape != b.shape:
        raise ValueError(f"shapes {a.shape} and {b.shape} cannot be compared")
    total = int(a.sum()) + int(b.sum())
    return 2.0 * int((a & b).sum()) / total if total else 1.0
