"""DICOM segmentations to masks: binary, fractional and label map (PS3.3 A.51, C.8.20)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from pydicom.dataset import Dataset, FileDataset

from stage_bank.deidentify.heads import slices_of
from stage_bank.dicom.decode import decode_frames, frame_count
from stage_bank.dicom.read import Refused
from stage_bank.dicom.reasons import Reason
from stage_bank.ingest.hooks import SeriesSource
from stage_bank.ingest.references.planes import Planes

__all__ = ["SEGMENTATION_CLASSES", "segmentation_masks"]

SEGMENTATION_CLASSES = frozenset({"1.2.840.10008.5.1.4.1.1.66.4", "1.2.840.10008.5.1.4.1.1.66.7"})
"""Segmentation Storage and Label Map Segmentation Storage."""


def segmentation_masks(dataset: FileDataset, series: SeriesSource) -> list[NDArray[np.bool_]]:
    """Where any segment lies, for each picture of a series; slices without a frame are empty.

    A fractional pixel belongs to its segment from half of the maximum on.

    Args:
        dataset: of a segmentation that names this series.
        series: the images it was drawn on.

    Raises:
        Refused: geometry or frame of reference differ from the images, or a damaged file.
    """
    frame_of_reference = str(dataset.get("FrameOfReferenceUID") or "")
    if frame_of_reference and series.frame_of_reference_uid not in ("", frame_of_reference):
        raise Refused(Reason.REFERENCE_FRAME)
    count = frame_count(dataset)
    groups = dataset.get("PerFrameFunctionalGroupsSequence") or ()
    if len(groups) < count:
        raise Refused(Reason.DAMAGED)
    planes = Planes(series)
    shape = int(dataset.Rows), int(dataset.Columns)
    frames_of: dict[int, list[int]] = {}
    for frame, (group, place) in enumerate(zip(groups, slices_of(dataset, range(count)), strict=False)):
        named = _named(group, planes)
        if place is not None and planes.placed(named):
            found = planes.at(place, named)
        elif named:
            found = named
        else:
            raise Refused(Reason.REFERENCE_NO_GEOMETRY)
        for index in found:
            frames_of.setdefault(index, []).append(frame)
    masks = []
    for picture in series.pictures:
        if picture.shape != shape:
            raise Refused(Reason.REFERENCE_SHAPE)
        masks.append(_decode(dataset, frames_of.get(planes.of(picture), ()), shape))
    return masks


def _named(group: Dataset, planes: Planes) -> frozenset[int]:
    """The slices of the series that a frame names as its source."""
    found: set[int] = set()
    for derivation in group.get("DerivationImageSequence") or ():
        for source in derivation.get("SourceImageSequence") or ():
            numbers = source.get("ReferencedFrameNumber")
            listed = [] if numbers is None else numbers if hasattr(numbers, "__iter__") else [numbers]
            frames = {int(number) - 1 for number in listed}
            found |= planes.named({str(source.get("ReferencedSOPInstanceUID"))}, frames)
    return frozenset(found)


def _decode(dataset: FileDataset, frames: Sequence[int], shape: tuple[int, int]) -> NDArray[np.bool_]:
    mask = np.zeros(shape, dtype=bool)
    if not frames:
        return mask
    kind = str(dataset.get("SegmentationType"))
    if kind not in ("BINARY", "FRACTIONAL", "LABELMAP"):
        raise Refused(Reason.REFERENCE_KIND)
    values = decode_frames(_grey(dataset), frames).frames
    if kind == "FRACTIONAL":
        marked = values * 2.0 >= float(dataset.MaximumFractionalValue)
    elif kind == "LABELMAP":
        marked = values != int(dataset.get("PixelPaddingValue") or 0)
    else:
        marked = values != 0
    return np.asarray(marked.any(axis=0))


def _grey(dataset: FileDataset) -> FileDataset:
    """Label maps may carry a palette for display; their values are numbers all the same."""
    if dataset.get("PhotometricInterpretation") == "PALETTE COLOR":
        dataset.PhotometricInterpretation = "MONOCHROME2"
    return dataset
