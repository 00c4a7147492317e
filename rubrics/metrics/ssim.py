"""Structural similarity and the map that turns it into a score."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import ndimage

__all__ = ["relative_gain", "ssim"]

SIGMA, RADIUS = 1.5, 5
K1, K2 = 0.01, 0.03


def ssim(image: npt.ArrayLike, reference: npt.ArrayLike, data_range: float = 1.0) -> float:
    """Mean structural similarity with Gaussian weights, without sample covariance.

    Wang, Bovik, Sheikh, Simoncelli, "Image quality assessment: from error visibility to structural similarity", 2004;
    window 11 by 11, sigma 1.5, K1 0.01, K2 0.03, the border of 5 pixels left out.

    Args:
        image: [rows, columns], both at least 11.
        reference: same shape.
        data_range: distance of the largest and smallest possible value.

    Returns:
        A number in [-1, 1]; 1 for equal images.

    Raises:
        ValueError: shapes differ or are too small.
    """
    x, y = np.asarray(image, dtype=np.float64), np.asarray(reference, dtype=np.float64)
    if x.shape != y.shape or x.ndim != 2 or min(x.shape) <= 2 * RADIUS:
        raise ValueError(f"shapes {x.shape} and {y.shape} cannot be compared")
    mean_x, mean_y = _blur(x), _blur(y)
    var_x, var_y = _blur(x * x) - mean_x**2, _blur(y * y) - mean_y**2
    covariance = _blur(x * y) - mean_x * mean_y
    c1, c2 = (K1 * data_range) ** 2, (K2 * data_range) ** 2
    upper = (2 * mean_x * mean_y + c1) * (2 * covariance + c2)
    lower = (mean_x**2 + mean_y**2 + c1) * (var_x + var_y + c2)
    return float((upper / lower)[RADIUS:-RADIUS, RADIUS:-RADIUS].mean())


def _blur(array: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    blurred: npt.NDArray[np.float64] = ndimage.gaussian_filter(array, SIGMA, truncate=RADIUS / SIGMA)
    return blurred


def relative_gain(value: float, untouched: float, reference: float) -> float:
    """Score a metric relative to doing nothing (0) and to the frozen reference pipeline (1), clipped to [0, 1].

    Args:
        value: metric of the output.
        untouched: metric of the input as it was.
        reference: metric of the reference pipeline's output.

    Raises:
        ValueError: the reference pipeline gains nothing, so that there is no scale.
    """
    if not reference > untouched:
        raise ValueError("the reference is not better than the untouched input")
    return min(max((value - untouched) / (reference - untouched), 0.0), 1.0)
