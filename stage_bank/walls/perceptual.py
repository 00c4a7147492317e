"""A perceptual hash that survives resizing, re-windowing and noise, and its forms under flips, turns and inversion.

The picture is averaged to 32 by 32 and stretched between its percentiles, and the signs of its low-frequency cosine
coefficients are kept. Inversion negates every sign; a flip or turn of the picture is one of the 32 by 32 array.
Neighbouring signs form bands that are compared as wholes, so that they can be compared under a key.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import fft

__all__ = ["BANDS", "bands", "variants"]

BANDS, BITS_PER_BAND = 20, 6
_SIDE = 32
_EVERY = sorted(((u, v) for u in range(16) for v in range(16) if u + v > 0), key=lambda f: (f[0] + f[1], f[0]))
_ROWS, _COLUMNS = zip(*_EVERY[: BANDS * BITS_PER_BAND], strict=True)

Picture = npt.NDArray[np.floating]


def bands(pixels: Picture) -> tuple[int, ...]:
    """The hash of a picture as it is: 20 bands of 6 bits, from the lowest frequencies up.

    Args:
        pixels: `[rows, columns]`, any size and range; non-finite values count as 0.
    """
    return _bands(_small(pixels))


def variants(pixels: Picture) -> tuple[tuple[int, ...], ...]:
    """The hashes of a picture under the 8 flips and turns, each as it is and inverted: 16 of them."""
    small = _small(pixels)
    straight = [_bands(np.rot90(form, turns)) for form in (small, small.T) for turns in range(4)]
    inverted = [tuple(band ^ (1 << BITS_PER_BAND) - 1 for band in form) for form in straight]
    return (*straight, *inverted)


def _small(pixels: Picture) -> npt.NDArray[np.float64]:
    """The 32 by 32 block averages, stretched so that their 2nd and 98th percentiles are 0 and 1, without their mean."""
    finite = np.nan_to_num(np.asarray(pixels, dtype=np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    averaged = _average(_average(finite, 0), 1)
    low, high = np.percentile(averaged, [2.0, 98.0])
    stretched: npt.NDArray[np.float64] = np.clip((averaged - low) / max(high - low, 1e-9), 0.0, 1.0)
    centred: npt.NDArray[np.float64] = stretched - stretched.mean()
    return centred


def _average(array: npt.NDArray[np.float64], axis: int) -> npt.NDArray[np.float64]:
    """Mean over 32 equal parts of an axis; a part may begin and end inside a pixel."""
    length = array.shape[axis]
    sums = np.concatenate([np.zeros_like(np.take(array, [0], axis)), np.cumsum(array, axis)], axis)
    edges = np.linspace(0.0, length, _SIDE + 1)
    below = np.minimum(edges.astype(int), length - 1)
    shape = [1, 1]
    shape[axis] = -1
    beyond = (edges - below).reshape(shape)
    at = np.take(sums, below, axis) * (1 - beyond) + np.take(sums, below + 1, axis) * beyond
    averaged: npt.NDArray[np.float64] = np.diff(at, axis=axis) * _SIDE / length
    return averaged


def _bands(small: npt.NDArray[np.float64]) -> tuple[int, ...]:
    bits = fft.dctn(small, norm="ortho")[_ROWS, _COLUMNS] > 0
    weights = 1 << np.arange(BITS_PER_BAND)
    return tuple(int(band) for band in bits.reshape(BANDS, BITS_PER_BAND) @ weights)
