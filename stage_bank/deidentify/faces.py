"""Head volumes lose their face: everything in front of and below a plane inclined by 45 degrees is blanked.

The plane is placed by the skin alone, so that it works for CT, MR and PET without finding the brain first. With the top
of the head as origin, and lengths scaled so that the head is 195 mm long, a point lies `d` below the top and `f` in
front of the forehead. In adults the brain keeps d + f below 75 mm, while brows, eyes, nose, mouth and chin lie above
95 mm; the plane is d + f = 82 mm. The shearing plane of Schimke et al. 2011, simpler: theirs needs the brain's outline.

Limits: heads turned or nodded by more than about 15 degrees, small children and deformed skulls are outside of what the
figures were taken for; ears and the back of the head stay; the frontal base of a brain may lose some millimetres.
A volume in which the top of the head or its sides are not seen, or which is not shaped like a head, is refused.
Fewer than `VOLUME_SLICES` slices show no face that could be recognised and are left alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray
from pydicom.dataset import Dataset

from stage_bank.deidentify.heads import Slice, is_head, slices_of
from stage_bank.deidentify.skin import skin_points
from stage_bank.ingest.decode import Decoded
from stage_bank.ingest.read import Refused
from stage_bank.ingest.report import Reason

__all__ = ["VOLUME_SLICES", "FaceCheck", "face_masks", "frame_masks"]

VOLUME_SLICES = 12
_HEAD_LENGTH = 195.0
_PLANE = 82.0
_LENGTHS = (130.0, 240.0)
_WIDTHS = (100.0, 200.0)
_CENTRAL = 30.0
_NOT_CUT = 60.0


class FaceCheck(StrEnum):
    """What happens to head volumes. `KEEP` is for sites whose settings say so."""

    REMOVE = "remove"
    KEEP = "keep"


@dataclass(frozen=True)
class _Head:
    """Where the plane goes.

    Args:
        top: z of the top of the head, in mm.
        forehead: y of the skin of the forehead, in mm.
        length: extent from front to back, in mm.
    """

    top: float
    forehead: float
    length: float


def frame_masks(dataset: Dataset, frames: Sequence[int], decoded: Decoded) -> NDArray[np.bool_] | None:
    """What to blank in a file that holds a head volume, `[frames, rows, columns]`; `None` when it holds none.

    Args:
        dataset: with its header.
        frames: indices of the frames that are kept.
        decoded: those frames.

    Raises:
        Refused: a head volume whose face cannot be found.
    """
    if len(frames) < VOLUME_SLICES or not is_head([dataset]):
        return None
    return face_masks(slices_of(dataset, frames), list(decoded.frames), dataset)


def face_masks(
    slices: Sequence[Slice | None], pixels: Sequence[NDArray[np.generic]], header: Dataset
) -> NDArray[np.bool_] | None:
    """What to blank in the slices of one head, `[slices, rows, columns]`; `None` when they are no volume.

    Args:
        slices: geometry of each slice, `None` where the header gives none.
        pixels: stored values of each, `[rows, columns]`.
        header: of any of them, for modality and rescaling.

    Raises:
        Refused: a volume, but the face cannot be found.
    """
    known = [place for place in slices if place is not None]
    if len(known) < len(slices):
        raise Refused(Reason.HEAD)
    if len({place.key for place in known}) < VOLUME_SLICES:
        return None
    head = _measure(skin_points(known, pixels, header))
    scale = head.length / _HEAD_LENGTH
    masks = []
    for place in known:
        _, y, z = place.coordinates()
        below, ahead = head.top - z, head.forehead - y
        masks.append((below > 0) & (below + ahead > _PLANE * scale))
    return np.stack(masks)


def _measure(skin: NDArray[np.float64]) -> _Head:
    """Top, forehead and length from points of the head, `[points, 3]` in patient coordinates (L, P, S).

    Raises:
        Refused: not the shape of a head with its top in view.
    """
    top = float(np.quantile(skin[:, 2], 0.9995))
    crown = skin[skin[:, 2] > top - 8.0]
    if np.ptp(crown[:, 0]) > 2 * _NOT_CUT or np.ptp(crown[:, 1]) > 2 * _NOT_CUT + 40.0:
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
    return _Head(top, float(np.quantile(central[:, 1], 0.002)), length)
