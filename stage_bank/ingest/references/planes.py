"""Which slices of a series a reference lies on. Where it fits none exactly, it is refused and never resampled."""

from __future__ import annotations

from collections.abc import Set

import numpy as np
from numpy.typing import NDArray

from stage_bank.deidentify.heads import Slice
from stage_bank.dicom.read import Refused
from stage_bank.dicom.reasons import Reason
from stage_bank.ingest.hooks import PictureSource, SeriesSource

__all__ = ["Planes"]

_SAME_DIRECTION = 5e-4
_SAME_SPACING = 5e-4
"""Relative; at the far edge of 512 pixels, a quarter of a pixel. Decimal strings of both files are rounded."""
_SAME_PLACE = 0.1
"""In pixels."""
_SAME_PLANE_MM = 0.1


class Planes:
    """The slices of one series.

    Args:
        series: as ingest found it.
    """

    def __init__(self, series: SeriesSource) -> None:
        self._slices = series.slices
        self._numbers = {(one.instance_uid, one.frame): index for index, one in enumerate(series.slices)}
        self._placed = [(index, one.place) for index, one in enumerate(series.slices) if one.place is not None]
        self._index = np.array([index for index, _ in self._placed], dtype=np.int64)
        self._positions = np.array([place.position for _, place in self._placed]).reshape(-1, 3)
        normals = [np.cross(place.across, place.down) for _, place in self._placed]
        self._normals = np.array(normals).reshape(-1, 3)

    def placed(self, named: Set[int]) -> bool:
        """Whether all these slices have a geometry."""
        return all(self._slices[index].place is not None for index in named)

    def of(self, picture: PictureSource) -> int:
        """Index of the slice that a picture shows."""
        return self._numbers[picture.instance_uid, picture.frame]

    def named(self, instances: Set[str], frames: Set[int] = frozenset()) -> frozenset[int]:
        """Indices of slices of these instances and, where any are given, these frames (from 0)."""
        return frozenset(
            index
            for index, one in enumerate(self._slices)
            if one.instance_uid in instances and (not frames or one.frame in frames)
        )

    def at(self, place: Slice, named: Set[int] = frozenset()) -> frozenset[int]:
        """Indices of the slices with exactly this geometry; of the named ones only, where there are any.

        Raises:
            Refused: none has it; the reason says in what they differ.
        """
        candidates = [pair for pair in self._placed if not named or pair[0] in named]
        if not candidates:
            raise Refused(Reason.REFERENCE_NO_GEOMETRY)
        reasons = {index: _difference(place, other) for index, other in candidates}
        alike = np.isin(self._index, [index for index, reason in reasons.items() if reason is None])
        if not alike.any():
            raise Refused(next(reason for reason in reasons.values() if reason is not None))
        apart = np.linalg.norm(self._positions - place.position, axis=1)
        found = self._index[alike & (apart <= _SAME_PLACE * min(place.spacing))]
        if not len(found):
            raise Refused(Reason.REFERENCE_MOVED if named else Reason.REFERENCE_SLICES)
        return frozenset(int(index) for index in found)

    def under(self, points: NDArray[np.float64], named: Set[int] = frozenset()) -> frozenset[int]:
        """Indices of the slices in whose plane all points lie; of the named ones only, where there are any.

        Args:
            points: `[points, 3]` in mm.
            named: indices of slices.

        Raises:
            Refused: there is none.
        """
        if not self._placed:
            raise Refused(Reason.REFERENCE_NO_GEOMETRY)
        offsets = np.einsum("psc,sc->ps", points[:, None, :] - self._positions[None], self._normals)
        inside = (np.abs(offsets) <= _SAME_PLANE_MM).all(axis=0)
        found = {int(index) for index in self._index[inside]}
        if named and not found & named:
            raise Refused(Reason.REFERENCE_MOVED)
        if not found:
            raise Refused(Reason.REFERENCE_SLICES)
        return frozenset(found & named if named else found)

    def place(self, index: int) -> Slice:
        """The geometry of a slice that `at` or `under` gave."""
        place = self._slices[index].place
        assert place is not None
        return place


def _difference(one: Slice, other: Slice) -> Reason | None:
    if (one.rows, one.columns) != (other.rows, other.columns):
        return Reason.REFERENCE_SHAPE
    if not np.allclose(one.spacing, other.spacing, rtol=_SAME_SPACING, atol=0.0):
        return Reason.REFERENCE_SPACING
    turned = max(float(np.abs(one.across - other.across).max()), float(np.abs(one.down - other.down).max()))
    return Reason.REFERENCE_ORIENTATION if turned > _SAME_DIRECTION else None
