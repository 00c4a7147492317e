"""Where the site's own references join ingest: a source of masks, shown every reference file, asked for each series."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from stage_bank.deidentify.heads import Slice
from stage_bank.dicom.walk import Found
from stage_bank.ingest.report import FileReport

__all__ = ["PictureSource", "References", "SeriesSlice", "SeriesSource"]


@dataclass(frozen=True)
class PictureSource:
    """Where one picture came from. It holds original identifiers and stays in memory.

    Args:
        path: file that was read; inside a temporary folder when it came out of an archive.
        instance_uid: SOP instance UID as in the file.
        frame: index in the file, from 0.
        place: geometry of the frame in mm; `None` where the header gives none.
        shape: rows and columns as stored, before any shrinking.
    """

    path: Path
    instance_uid: str
    frame: int
    place: Slice | None
    shape: tuple[int, int]


@dataclass(frozen=True)
class SeriesSlice:
    """One frame of a series, whether a picture was made of it or not.

    Args:
        instance_uid: SOP instance UID as in the file.
        frame: index in the file, from 0.
        place: geometry of the frame in mm; `None` where the header gives none.
    """

    instance_uid: str
    frame: int
    place: Slice | None


@dataclass(frozen=True)
class SeriesSource:
    """A series whose pictures were made.

    Args:
        series_uid: series instance UID as in the files; empty when absent.
        study_uid: study instance UID as in the files; empty when absent.
        frame_of_reference_uid: as in the files; empty when absent.
        patient: pseudonym of the patient.
        pictures: in the order of the pictures.
        slices: all frames of all files of the series.
    """

    series_uid: str
    study_uid: str
    frame_of_reference_uid: str
    patient: str
    pictures: tuple[PictureSource, ...]
    slices: tuple[SeriesSlice, ...]


class References(Protocol):
    """Gives the site's references."""

    def offer(self, found: Found) -> None:
        """Look at a file that is no image. All are shown before the first series; they can be read until the last."""

    def findings_for(self, series: SeriesSource) -> Sequence[NDArray[np.bool_] | None]:
        """A mask for each picture of the series, in its order.

        Returns:
            Boolean `[rows, columns]` in the stored shape, or `None` where no reference covers the picture. A mask of
            `False` alone says that nothing real is there.
        """

    def reports(self) -> Sequence[FileReport]:
        """What became of each reference, asked for last. They replace what ingest says of the same files."""
