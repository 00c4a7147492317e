"""Contours of a radiotherapy structure set to masks (PS3.3 A.19, C.8.8.6)."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from numpy.typing import NDArray
from pydicom.dataset import Dataset, FileDataset

from stage_bank.deidentify.heads import Slice
from stage_bank.dicom.read import Refused
from stage_bank.dicom.reasons import Reason
from stage_bank.ingest.hooks import SeriesSource
from stage_bank.ingest.references.planes import Planes
from stage_bank.ingest.references.polygons import polygon_mask

__all__ = ["STRUCTURE_SET_CLASS", "structure_masks"]

STRUCTURE_SET_CLASS = "1.2.840.10008.5.1.4.1.1.481.3"

_NOT_FOUND_IN_PATIENTS = frozenset(
    {
        "EXTERNAL", "SUPPORT", "FIXATION", "BOLUS", "MARKER", "REGISTRATION", "ISOCENTER", "CONTROL",
        "DOSE_REGION", "DOSE_MEASUREMENT", "BRACHY_CHANNEL", "BRACHY_ACCESSORY", "BRACHY_SRC_APP", "BRACHY_CHNL_SHLD",
    }
)  # fmt: skip
"""Interpreted types (PS3.3 C.8.8.8.1) of the outline of the body, of devices and of aids to planning."""
_EDGE = 1.0
"""Pixels by which a contour may leave the image: outlines that run along its border do."""


def structure_masks(dataset: FileDataset, series: SeriesSource) -> list[NDArray[np.bool_]]:
    """Where any region of interest lies, for each picture of a series; slices without a contour are empty.

    Contours of one region and slice add up; those of the type CLOSEDPLANAR_XOR cancel where they overlap. Points have
    no area and are left out, and so are the body's outline, devices and aids to planning.

    Args:
        dataset: of a structure set that names this series.
        series: the images it was drawn on.

    Raises:
        Refused: geometry or frame of reference differ from the images, open contours, or a damaged file.
    """
    frame_of_reference = _frame_of_reference(dataset, series)
    skipped = {
        str(item.get("ReferencedROINumber"))
        for item in dataset.get("RTROIObservationsSequence") or ()
        if str(item.get("RTROIInterpretedType") or "") in _NOT_FOUND_IN_PATIENTS
    }
    frames = {
        str(item.get("ROINumber")): str(item.get("ReferencedFrameOfReferenceUID") or "")
        for item in dataset.get("StructureSetROISequence") or ()
    }
    others = _frames_of_reference(dataset) - {frame_of_reference}
    planes = Planes(series)
    wanted = [planes.of(picture) for picture in series.pictures]
    masks: dict[int, NDArray[np.bool_]] = {}
    for region in dataset.get("ROIContourSequence") or ():
        number = str(region.get("ReferencedROINumber"))
        own = frames.get(number, "")
        if number in skipped or own in others:
            continue
        if own not in ("", frame_of_reference):
            raise Refused(Reason.REFERENCE_FRAME)
        for index, mask in _region(region, planes, frozenset(wanted)).items():
            masks[index] = masks[index] | mask if index in masks else mask
    found = []
    for index, picture in zip(wanted, series.pictures, strict=True):
        mask = masks.get(index, np.zeros(picture.shape, dtype=bool))
        if mask.shape != picture.shape:
            raise Refused(Reason.REFERENCE_SHAPE)
        found.append(mask)
    return found


def _frames_of_reference(dataset: Dataset) -> set[str]:
    items = dataset.get("ReferencedFrameOfReferenceSequence") or ()
    return {str(item.get("FrameOfReferenceUID") or "") for item in items}


def _frame_of_reference(dataset: Dataset, series: SeriesSource) -> str:
    """That of the entry that names the series, or of the whole set where none does."""
    for item in dataset.get("ReferencedFrameOfReferenceSequence") or ():
        for study in item.get("RTReferencedStudySequence") or ():
            for named in study.get("RTReferencedSeriesSequence") or ():
                if named.get("SeriesInstanceUID") == series.series_uid:
                    uid = str(item.get("FrameOfReferenceUID") or "")
                    if series.frame_of_reference_uid not in ("", uid):
                        raise Refused(Reason.REFERENCE_FRAME)
                    return uid
    if series.frame_of_reference_uid not in _frames_of_reference(dataset):
        raise Refused(Reason.REFERENCE_FRAME)
    return series.frame_of_reference_uid


def _region(region: Dataset, planes: Planes, wanted: frozenset[int]) -> dict[int, NDArray[np.bool_]]:
    """Masks of one region of interest, by slice and of the wanted slices only; every contour is checked."""
    added: dict[int, list[NDArray[np.bool_]]] = defaultdict(list)
    crossed: dict[int, list[NDArray[np.bool_]]] = defaultdict(list)
    for contour in region.get("ContourSequence") or ():
        kind = str(contour.get("ContourGeometricType"))
        if kind == "POINT":
            continue
        if kind not in ("CLOSED_PLANAR", "CLOSEDPLANAR_XOR"):
            raise Refused(Reason.REFERENCE_KIND)
        points = _points(contour)
        for index in planes.under(points, _named(contour, planes)):
            place = planes.place(index)
            corners = _corners(points, place)
            if index in wanted:
                mask = polygon_mask(corners, (place.rows, place.columns))
                (added if kind == "CLOSED_PLANAR" else crossed)[index].append(mask)
    masks = {index: np.logical_or.reduce(parts) for index, parts in added.items()}
    for index, parts in crossed.items():
        mask = np.logical_xor.reduce(parts)
        masks[index] = masks[index] | mask if index in masks else mask
    return masks


def _points(contour: Dataset) -> NDArray[np.float64]:
    """`[points, 3]` in mm."""
    try:
        numbers = np.array([float(number) for number in contour.ContourData])
    except (AttributeError, TypeError, ValueError) as error:
        raise Refused(Reason.DAMAGED) from error
    if len(numbers) < 9 or len(numbers) % 3 or not np.isfinite(numbers).all():
        raise Refused(Reason.DAMAGED)
    return numbers.reshape(-1, 3)


def _named(contour: Dataset, planes: Planes) -> frozenset[int]:
    """The slices that a contour names.

    Raises:
        Refused: it names some, and the series has none of them.
    """
    items = list(contour.get("ContourImageSequence") or ())
    instances = {str(item.get("ReferencedSOPInstanceUID")) for item in items}
    frames = {int(item.ReferencedFrameNumber) - 1 for item in items if "ReferencedFrameNumber" in item}
    named = planes.named(instances, frames)
    if instances and not named:
        raise Refused(Reason.REFERENCE_SLICES)
    return named


def _corners(points: NDArray[np.float64], place: Slice) -> NDArray[np.float64]:
    """Row and column of each point, `[points, 2]`."""
    apart = points - place.position
    corners = np.stack([apart @ place.down / place.spacing[0], apart @ place.across / place.spacing[1]], axis=1)
    limit = np.array([place.rows, place.columns]) - 0.5 + _EDGE
    if (corners < -0.5 - _EDGE).any() or (corners > limit).any():
        raise Refused(Reason.REFERENCE_OUTSIDE)
    return corners
