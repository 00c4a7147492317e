"""The body in a volume: what is denser than air, the largest piece of it, as points in the patient."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray
from pydicom.dataset import Dataset
from scipy import ndimage
from skimage.filters import threshold_otsu

from stage_bank.deidentify.heads import Slice
from stage_bank.ingest.read import Refused
from stage_bank.ingest.report import Reason

__all__ = ["skin_points"]

_CT_SKIN = -300.0
"""Hounsfield units between air and skin."""
_GRID = 2.0
"""Millimetres: fine enough for a forehead."""


def skin_points(slices: Sequence[Slice], pixels: Iterable[NDArray[np.generic]], header: Dataset) -> NDArray[np.float64]:
    """Patient coordinates `[points, 3]` of the largest connected body; `pixels` may come one by one.

    Raises:
        Refused: nothing there, or slices that differ in size or direction.
    """
    first = slices[0]
    if any(s.rows != first.rows or s.columns != first.columns or s.spacing != first.spacing for s in slices):
        raise Refused(Reason.HEAD)
    if any(min(s.across @ first.across, s.down @ first.down) < 0.999 for s in slices):
        raise Refused(Reason.HEAD)
    step = max(1, int(_GRID / max(first.spacing)))
    thinned = [np.asarray(values[::step, ::step], dtype=np.float32) for values in pixels]
    order = sorted(range(len(slices)), key=lambda index: slices[index].key)
    volume = np.stack([thinned[index] for index in order])
    body = ndimage.binary_opening(volume > _level(volume, header), iterations=1)
    labels, count = ndimage.label(body)
    if count == 0:
        raise Refused(Reason.HEAD)
    body = labels == 1 + int(np.argmax(np.bincount(labels.ravel())[1:]))
    coordinates = np.stack([slices[index].coordinates(step) for index in order], axis=1)
    return np.asarray(coordinates[:, body].T)


def _level(volume: NDArray[np.float32], header: Dataset) -> float:
    if header.get("Modality") == "CT":
        return (_CT_SKIN - float(header.get("RescaleIntercept") or 0)) / float(header.get("RescaleSlope") or 1)
    shown = volume[volume > volume.min()]
    if shown.size == 0:
        raise Refused(Reason.HEAD)
    return float(threshold_otsu(shown)) * 0.5  # type: ignore[no-untyped-call]
