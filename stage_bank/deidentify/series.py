"""The files of one series: together they may show a head, though each of them alone does not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydicom.dataset import Dataset

from stage_bank.deidentify.faces import VOLUME_SLICES, FacePlane, face_plane
from stage_bank.deidentify.heads import Shown, Slice, shown, slices_of
from stage_bank.dicom.decode import decode_frames, frame_count
from stage_bank.dicom.read import Refused, read_dataset
from stage_bank.dicom.reasons import Reason

__all__ = ["SeriesFile", "series_face_plane"]


@dataclass(frozen=True)
class SeriesFile:
    """What must be known of a file before its series can be judged.

    Args:
        path: where it is.
        frames: number of frames.
        shown: what it shows, by its header.
        place: geometry of its first frame; `None` where the header gives none.
    """

    path: Path
    frames: int
    shown: Shown
    place: Slice | None

    @classmethod
    def look(cls, path: Path, dataset: Dataset) -> SeriesFile:
        """From a header.

        Raises:
            Refused: the header is damaged.
        """
        try:
            seen = shown([dataset]) if "PixelData" in dataset else Shown.OTHER
            return cls(path, frame_count(dataset), seen, slices_of(dataset, [0])[0])
        except Refused:
            raise
        except Exception as error:  # hostile headers
            raise Refused(Reason.DAMAGED) from error

    def face_mask(self, plane: FacePlane | None) -> NDArray[np.bool_] | None:
        """What to blank in this file, `[rows, columns]`. Files of several frames are volumes of their own.

        Raises:
            Refused: part of a head, but nobody knows which.
        """
        if plane is None or self.frames > 1:
            return None
        if self.place is None:
            raise Refused(Reason.HEAD)
        return plane.mask(self.place)


def series_face_plane(files: Sequence[SeriesFile]) -> FacePlane | None:
    """The plane for the single-frame files of a series that is a head volume; `None` when it is none.

    Files whose pixels or geometry cannot be used are left out of the search; they are refused for themselves.

    Raises:
        Refused: a head volume whose face cannot be found.
    """
    slices = [file for file in files if file.frames == 1 and file.shown is not Shown.OTHER]
    if len(slices) < VOLUME_SLICES:
        return None
    placed = [file for file in slices if file.place is not None]
    if len(placed) < VOLUME_SLICES:
        raise Refused(Reason.HEAD)
    named = next((file for file in slices if file.shown is Shown.HEAD), slices[0])
    return face_plane(_decoded(placed), read_dataset(named.path))


def _decoded(files: Sequence[SeriesFile]) -> Iterator[tuple[Slice | None, NDArray[np.generic]]]:
    for file in files:
        try:
            yield file.place, decode_frames(read_dataset(file.path), [0]).frames[0]
        except Refused:
            continue
