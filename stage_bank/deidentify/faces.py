"""Head volumes lose their face: everything in front of and below a plane inclined by 45 degrees is blanked.

The plane is placed by the skin alone, so that it works for CT, MR and PET without finding the brain first. With the top
of the head as origin, and lengths scaled so that the head is 195 mm long, a point lies `d` below the top and `f` in
front of the forehead. The plane is d + f = 82 mm: brows, eyes, nose, mouth and chin of adults lie about 5 mm and more
beyond it, and of the MNI152 average brain 99.7 % lies on this side. The shearing plane of Schimke et al. 2011, simpler:
theirs needs the brain's outline.

Limits: heads turned or nodded by more than about 15 degrees, small children and deformed skulls are outside of what the
figures were taken for; ears and the back of the head stay; the frontal base of a brain may lose some millimetres.
A volume in which the top of the head or its sides are not seen, or which is not shaped like a head, is refused.
Fewer than `VOLUME_SLICES` slices show no face that could be recognised and are left alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray
from pydicom.dataset import Dataset

from stage_bank.deidentify.heads import Shown, Slice, shown, slices_of
from stage_bank.deidentify.skin import skin_points, thin
from stage_bank.dicom.decode import Decoded
from stage_bank.dicom.read import Refused
from stage_bank.dicom.reasons import Reason

__all__ = ["VOLUME_SLICES", "FaceCheck", "FacePlane", "face_plane", "frame_masks"]

VOLUME_SLICES = 12
_HEAD_LENGTH = 195.0
_PLANE = 82.0
"""Distances in mm, as explained above."""
_LENGTHS = (130.0, 240.0)
_WIDTHS = (100.0, 200.0)
_CENTRAL = 30.0
_CROWN = (120.0, 160.0)
"""How wide and long the uppermost 8 mm of a whole head are at most, in mm."""


class FaceCheck(StrEnum):
    """What happens to head volumes. `KEEP` is for sites whose settings say so."""

    REMOVE = "remove"
    KEEP = "keep"


@dataclass(frozen=True)
class FacePlane:
    """The plane that cuts the face off.

    Args:
        top: z of the top of the head, in mm.
        forehead: y of the skin of the forehead, in mm.
        length: extent of the head from front to back, in mm.
    """

    top: float
    forehead: float
    length: float

    def mask(self, place: Slice) -> NDArray[np.bool_]:
        """The pixels of a slice that belong to the face's side, `[rows, columns]`."""
        _, y, z = place.coordinates()
        below, ahead = self.top - z, self.forehead - y
        return np.asarray((below > 0) & (below + ahead > _PLANE * self.length / _HEAD_LENGTH))


def frame_masks(dataset: Dataset, frames: Sequence[int], decoded: Decoded) -> NDArray[np.bool_] | None:
    """What to blank in a file that holds a head volume, `[frames, rows, columns]`; `None` when it holds none.

    Args:
        dataset: with its header.
        frames: indices of the frames that are kept.
        decoded: those frames.

    Raises:
        Refused: a head volume whose face cannot be found.
    """
    if len(frames) < VOLUME_SLICES or shown([dataset]) is Shown.OTHER:
        return None
    places = slices_of(dataset, frames)
    plane = face_plane(zip(places, decoded.frames, strict=True), dataset)
    return None if plane is None else np.stack([plane.mask(place) for place in places if place is not None])


def face_plane(slices: Iterable[tuple[Slice | None, NDArray[np.generic]]], header: Dataset) -> FacePlane | None:
    """Where the face of a head begins; `None` when there are too few slices to show one.

    Args:
        slices: geometry of each slice, `None` where the header gives none, and its stored values `[rows, columns]`;
            taken one by one, so that a series need not fit into memory.
        header: of any of them, for modality, rescaling and body part.

    Raises:
        Refused: a volume, but the face cannot be found.
    """
    thinned = [(place, None if place is None else thin(place, values)) for place, values in slices]
    if len(thinned) < VOLUME_SLICES:
        return None
    known = [(place, values) for place, values in thinned if place is not None and values is not None]
    if len(known) < len(thinned):
        raise Refused(Reason.HEAD)
    if len({place.key for place, _ in known}) < VOLUME_SLICES:
        return None
    skin = skin_points(known, header)
    if shown([header]) is not Shown.HEAD and _wide_everywhere(skin):
        return None
    return _measure(skin)


def _wide_everywhere(skin: NDArray[np.float64]) -> bool:
    """Whether no 10 mm of the body are as narrow as a head, so that none can be in view."""
    levels = np.round(skin[:, 2] / 10.0)
    widths = [float(np.ptp(skin[levels == level, 0])) for level in np.unique(levels)]
    return min(widths) > _WIDTHS[1] + 30.0


def _measure(skin: NDArray[np.float64]) -> FacePlane:
    """The plane from points of the head, `[points, 3]` in patient coordinates (left, posterior, superior).

    Raises:
        Refused: not the shape of a head with its top in view.
    """
    top = float(np.quantile(skin[:, 2], 0.9995))
    crown = skin[skin[:, 2] > top - 8.0]
    if np.ptp(crown[:, 0]) > _CROWN[0] or np.ptp(crown[:, 1]) > _CROWN[1]:
        raise Refused(Reason.HEAD)
    band = skin[(skin[:, 2] < top - 55.0) & (skin[:, 2] > top - 85.0)]
    if len(band) < 100:
        raise Refused(Reason.HEAD)
    low, high = np.quantile(band[:, :2], 0.002, axis=0), np.quantile(band[:, :2], 0.998, axis=0)
    width, length = (float(value) for value in high - low)
    if not (_LENGTHS[0] <= length <= _LENGTHS[1] and _WIDTHS[0] <= width <= _WIDTHS[1]):
        raise Refused(Reason.HEAD)
    middle = (low[0] + high[0]) / 2
    central = band[np.abs(band[:, 0] - middle) < _CENTRAL]
    return FacePlane(top, float(np.quantile(central[:, 1], 0.002)), length)
