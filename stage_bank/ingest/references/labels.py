"""Masks from the site's label files: what is boxed, or all of a picture whose class says that something is there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stage_bank.dicom.read import Refused
from stage_bank.dicom.reasons import Reason
from stage_bank.dicom.walk import Found
from stage_bank.ingest.hooks import PictureSource, SeriesSource
from stage_bank.ingest.references.label_files import Label, read_labels
from stage_bank.ingest.report import FileReport, Status

__all__ = ["LabelReferences"]


class LabelReferences:
    """Masks out of one label file.

    A class without a box does not say where: all of the picture is marked, so that nothing is put there. Files inside
    archives have no path of their own; name them by UID.

    Args:
        path: a CSV or JSON, as `read_labels` takes it.
        folder: the ingested folder, against which `file` counts.

    Raises:
        ConfigurationError: the file cannot be read.
    """

    def __init__(self, path: Path, folder: Path) -> None:
        self._folder = folder.resolve()
        self._by_name: dict[tuple[str, str], list[Label]] = {}
        self._reasons: dict[str, Reason] = {}
        for label in read_labels(path):
            self._by_name.setdefault((label.kind, label.value), []).append(label)
            self._reasons[label.name] = Reason.REFERENCE_UNUSED

    def offer(self, found: Found) -> None:
        """No file among the images is of interest here."""

    def findings_for(self, series: SeriesSource) -> Sequence[NDArray[np.bool_] | None]:
        """What all labels say of each picture."""
        return [self._mask(series, picture) for picture in series.pictures]

    def reports(self) -> Sequence[FileReport]:
        """One entry for each label."""
        return [
            FileReport(name, Status.TAKEN if reason is Reason.REFERENCE else Status.REFUSED, reason)
            for name, reason in self._reasons.items()
        ]

    def _mask(self, series: SeriesSource, picture: PictureSource) -> NDArray[np.bool_] | None:
        found = None
        for label in self._labels(series, picture):
            try:
                mask = _drawn(label, picture.shape)
            except Refused as refusal:
                self._reasons[label.name] = refusal.reason
                continue
            if self._reasons[label.name] is Reason.REFERENCE_UNUSED:
                self._reasons[label.name] = Reason.REFERENCE
            found = mask if found is None else found | mask
        return found

    def _labels(self, series: SeriesSource, picture: PictureSource) -> list[Label]:
        names = [("series", series.series_uid), ("instance", picture.instance_uid)]
        path = picture.path.resolve()
        if path.is_relative_to(self._folder):
            names.append(("file", path.relative_to(self._folder).as_posix()))
        labels = [label for name in names if name[1] for label in self._by_name.get(name, ())]
        return [label for label in labels if label.frame in (None, picture.frame)]


def _drawn(label: Label, shape: tuple[int, int]) -> NDArray[np.bool_]:
    """Every pixel that a box touches.

    Raises:
        Refused: the label is meant for another size, or a box leaves the picture.
    """
    if label.size not in (None, shape):
        raise Refused(Reason.REFERENCE_SHAPE)
    mask = np.full(shape, label.whole)
    for left, top, right, bottom in label.boxes:
        if left < 0 or top < 0 or right > shape[1] or bottom > shape[0]:
            raise Refused(Reason.REFERENCE_OUTSIDE)
        mask[math.floor(top) : math.ceil(bottom), math.floor(left) : math.ceil(right)] = True
    return mask
