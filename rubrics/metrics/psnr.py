"""Peak signal-to-noise ratio."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["psnr"]

EQUAL, HIGHEST = 1e-12, 99.0
"""Mean squared error up to which images count as equal, and what they then are worth, in dB (AutoMedBench)."""


def psnr(image: npt.ArrayLike, reference: npt.ArrayLike, data_range: float) -> float:
    """10 log10(range² / MSE) in dB, 99 for equal images (Huynh-Thu and Ghanbari 2008, equation 1).

    Args:
        image: any shape.
        reference: same shape.
        data_range: distance of the largest and smallest possible value, above 0.

    Raises:
        ValueError: shapes differ, or there is no data range.
    """
    x, y = np.asarray(image, dtype=np.float64), np.asarray(reference, dtype=np.float64)
    if x.shape != y.shape or not data_range > 0:
        raise ValueError(f"shapes {x.shape} and {y.shape} with range {data_range} cannot be compared")
    error = float(np.mean((x - y) ** 2))
    return HIGHEST if error <= EQUAL else float(10.0 * np.log10(data_range**2 / error))
