"""The body in a volume: what is denser than air, the largest piece of it, as points in the patient."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from pydicom.dataset import Dataset
from scipy import ndimage
from skimage.filters import threshold_otsu

from stage_bank.deidentify.heads import Slice
from stage_bank.dicom.read import Refused
from stage_bank.dicom.reasons import Reason

__all__ = ["skin_points", "thin"]

_CT_SKIN = -300.0
"""Hounsfield units between air and skin."""
_GRID = 2.0
"""Millimetres: fine enough for a forehead."""
_SAME_DIRECTION = 0.999
"""Least cosine between the directions of two slices of one volume."""


def thin(place: Slice, pixels: NDArray[np.generic]) -> NDArray[np.float32]:
    """A slice's values at about every second millimetre, `[rows, columns]`."""
    step = _step(place)
    return np.asarray(pixels[::step, ::step], dtype=np.float32)


def skin_points(slices: Sequence[tuple[Slice, NDArray[np.float32]]], header: Dataset) -> NDArray[np.float64]:
    """Patient coordinates `[points, 3]` of the largest connected body.

    Args:
        slices: geometry, and values as `thin` gives them.
        header: for modality and rescaling.

    Raises:
        Refused: nothing there, or slices that differ in size or direction.
    """
    first = slices[0][0]
    if any(s.rows != first.rows or s.columns != first.columns or s.spacing != first.spacing for s, _ in slices):
        raise Refused(Reason.HEAD)
    if any(min(s.across @ first.across, s.down @ first.down) < _SAME_DIRECTION for s, _ in slices):
        raise Refused(Reason.HEAD)
    ordered = sorted(slices, key=lambda pair: pair[0].key)
    volume = np.stack([values for _, values in ordered])
    body = ndimage.binary_opening(volume > _level(volume, header), iterations=1)
    labels, count = ndimage.label(body)
    if count == 0:
        raise Refused(Reason.HEAD)
    body = labels == 1 + int(np.argmax(np.bincount(labels.ravel())[1:]))
    coordinates = np.stack([place.coordinates(_step(first)) for place, _ in ordered], axis=1)
    return np.asarray(coordinates[:, body].T)


def _step(place: Slice) -> int:
    return max(1, int(_GRID / max(place.spacing)))


def _level(volume: NDArray[np.float32], header: Dataset) -> float:
    if header.get("Modality") == "CT":
        return (_CT_SKIN - float(header.get("RescaleIntercept") or 0)) / float(header.get("RescaleSlope") or 1)
    shown = volume[volume > volume.min()]
    if shown.size == 0:
        raise Refused(Reason.HEAD)
    return float(threshold_otsu(shown)) * 0.5  # type: ignore[no-untyped-call]
