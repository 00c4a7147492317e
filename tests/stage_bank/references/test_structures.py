"""Structure sets drawn in patient coordinates on oblique slices."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pydicom.dataset import Dataset, FileDataset, FileMetaDataset
from pydicom.uid import ExplicitVRLittleEndian, RTStructureSetStorage, generate_uid

from stage_bank.ingest import Reason, Status
from stage_bank.ingest.references import polygon_mask
from tests.stage_bank.references.series import SIDE, ingested, real_series, turned

BLOB = np.array([(20.2, 30.7), (25.1, 80.3), (70.9, 90.4), (60.3, 40.6), (40.4, 55.2)])
"""Row and column."""


def in_patient(source: FileDataset, corners: np.ndarray) -> list[str]:
    """Contour data of pixel coordinates, by the header alone (PS3.3 C.7.6.2.1.1)."""
    position = np.array([float(v) for v in source.ImagePositionPatient])
    across, down = np.array([float(v) for v in source.ImageOrientationPatient]).reshape(2, 3)
    rows, columns = (float(v) for v in source.PixelSpacing)
    points = position + corners[:, :1] * rows * down + corners[:, 1:] * columns * across
    return [f"{value:.4f}" for value in points.ravel()]


def contour(source: FileDataset, corners: np.ndarray, kind: str = "CLOSED_PLANAR", named: bool = True) -> Dataset:
    item = Dataset()
    item.ContourGeometricType = kind
    item.NumberOfContourPoints = len(corners)
    item.ContourData = in_patient(source, corners)
    if named:
        image = Dataset()
        image.ReferencedSOPClassUID, image.ReferencedSOPInstanceUID = source.SOPClassUID, source.SOPInstanceUID
        item.ContourImageSequence = [image]
    return item


def structure_set(source: FileDataset, regions: list[list[Dataset]], types: tuple[str, ...] = ()) -> FileDataset:
    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID, meta.TransferSyntaxUID = RTStructureSetStorage, ExplicitVRLittleEndian
    meta.MediaStorageSOPInstanceUID = generate_uid()
    made = FileDataset("", {}, preamble=b"\0" * 128, file_meta=meta)
    made.SOPClassUID, made.SOPInstanceUID = RTStructureSetStorage, meta.MediaStorageSOPInstanceUID
    made.Modality, made.PatientID, made.StudyInstanceUID = "RTSTRUCT", source.PatientID, source.StudyInstanceUID
    made.SeriesInstanceUID = generate_uid()
    series, study, frame = Dataset(), Dataset(), Dataset()
    series.SeriesInstanceUID = source.SeriesInstanceUID
    study.RTReferencedSeriesSequence = [series]
    frame.FrameOfReferenceUID, frame.RTReferencedStudySequence = source.FrameOfReferenceUID, [study]
    made.ReferencedFrameOfReferenceSequence = [frame]
    made.StructureSetROISequence, made.ROIContourSequence, made.RTROIObservationsSequence = [], [], []
    for number, contours in enumerate(regions, start=1):
        roi, drawn, observed = Dataset(), Dataset(), Dataset()
        roi.ROINumber, roi.ReferencedFrameOfReferenceUID = number, source.FrameOfReferenceUID
        drawn.ReferencedROINumber, drawn.ContourSequence = number, contours
        observed.ReferencedROINumber = number
        observed.RTROIInterpretedType = types[number - 1] if types else "GTV"
        made.StructureSetROISequence.append(roi)
        made.ROIContourSequence.append(drawn)
        made.RTROIObservationsSequence.append(observed)
    return made


def expected(*polygons: np.ndarray) -> np.ndarray:
    return np.logical_or.reduce([polygon_mask(polygon, (SIDE, SIDE)) for polygon in polygons])


@pytest.mark.parametrize("named", [True, False])
def test_contours_land_on_their_slices(tmp_path: Path, named: bool) -> None:
    sources = real_series(tmp_path)
    drawn = [BLOB + 3 * number for number in range(3)]
    contours = [contour(*pair, named=named) for pair in zip(sources, drawn, strict=False)]
    structure_set(sources[0], [contours]).save_as(tmp_path / "rt.dcm")
    _, findings, reports = ingested(tmp_path)
    assert (reports["rt.dcm"].status, reports["rt.dcm"].reason) == (Status.TAKEN, Reason.REFERENCE)
    for source, corners in zip(sources, drawn, strict=False):
        assert np.array_equal(findings[f"{source.SOPInstanceUID}/0"], expected(corners))
    last = findings[f"{sources[3].SOPInstanceUID}/0"]
    assert last is not None
    assert not last.any()


@pytest.mark.parametrize("degrees", [(0.0, 0.0, 0.0), (90.0, 0.0, 0.0), (0.0, 90.0, 90.0), (33.0, -71.0, 140.0)])
def test_area_in_square_millimetres_whatever_the_orientation(tmp_path: Path, degrees: tuple[float, ...]) -> None:
    sources = real_series(tmp_path, count=1, axes=turned(degrees))
    angles = np.linspace(0, 2 * np.pi, 360, endpoint=False)
    ellipse = np.stack([60 + 20 / 0.75 * np.sin(angles), 61 + 20 / 0.5 * np.cos(angles)], axis=1)
    structure_set(sources[0], [[contour(sources[0], ellipse)]]).save_as(tmp_path / "rt.dcm")
    (mask,) = ingested(tmp_path)[1].values()
    assert mask is not None
    assert mask.sum() * 0.75 * 0.5 == pytest.approx(np.pi * 20**2, rel=0.01)


def test_contours_add_up_and_exclusive_ones_cancel(tmp_path: Path) -> None:
    sources = real_series(tmp_path, count=2)
    outer = np.array([(10.5, 10.5), (10.5, 50.5), (50.5, 50.5), (50.5, 10.5)])
    hole = np.array([(20.5, 20.5), (20.5, 30.5), (30.5, 30.5), (30.5, 20.5)])
    both = [contour(sources[0], outer), contour(sources[0], hole)]
    crossed = [contour(sources[1], outer, "CLOSEDPLANAR_XOR"), contour(sources[1], hole, "CLOSEDPLANAR_XOR")]
    structure_set(sources[0], [both, crossed]).save_as(tmp_path / "rt.dcm")
    _, findings, _ = ingested(tmp_path)
    assert np.array_equal(findings[f"{sources[0].SOPInstanceUID}/0"], expected(outer))
    assert np.array_equal(findings[f"{sources[1].SOPInstanceUID}/0"], expected(outer) & ~expected(hole))


def test_outlines_of_the_body_and_points_are_no_findings(tmp_path: Path) -> None:
    sources = real_series(tmp_path, count=1)
    body = np.array([(0.0, 0.0), (0.0, 127.0), (127.0, 127.0), (127.0, 0.0)])
    regions = [[contour(sources[0], body)], [contour(sources[0], BLOB)], [contour(sources[0], BLOB[:1], "POINT")]]
    structure_set(sources[0], regions, ("EXTERNAL", "GTV", "GTV")).save_as(tmp_path / "rt.dcm")
    (mask,) = ingested(tmp_path)[1].values()
    assert np.array_equal(mask, expected(BLOB))


def test_regions_of_another_named_frame_of_reference_are_left_out(tmp_path: Path) -> None:
    sources = real_series(tmp_path, count=1)
    made = structure_set(sources[0], [[contour(sources[0], BLOB)], [contour(sources[0], BLOB + 9)]])
    other = Dataset()
    other.FrameOfReferenceUID = generate_uid()
    made.ReferencedFrameOfReferenceSequence.append(other)
    made.StructureSetROISequence[1].ReferencedFrameOfReferenceUID = other.FrameOfReferenceUID
    made.save_as(tmp_path / "rt.dcm")
    (mask,) = ingested(tmp_path)[1].values()
    assert np.array_equal(mask, expected(BLOB))


def _frame(made: FileDataset, _: Dataset) -> None:
    made.ReferencedFrameOfReferenceSequence[0].FrameOfReferenceUID = generate_uid()


def _region_frame(made: FileDataset, _: Dataset) -> None:
    made.StructureSetROISequence[0].ReferencedFrameOfReferenceUID = generate_uid()


def _off_plane(made: FileDataset, drawn: Dataset) -> None:
    drawn.ContourData = [f"{float(v) + 0.3:.4f}" for v in drawn.ContourData]


def _between(made: FileDataset, drawn: Dataset) -> None:
    _off_plane(made, drawn)
    del drawn.ContourImageSequence


def _other_slice(made: FileDataset, drawn: Dataset) -> None:
    drawn.ContourImageSequence[0].ReferencedSOPInstanceUID = generate_uid()


def _outside(made: FileDataset, drawn: Dataset) -> None:
    along = turned()[:, 0]
    points = np.array([float(v) for v in drawn.ContourData]).reshape(-1, 3) + 40 * along
    drawn.ContourData = [f"{v:.4f}" for v in points.ravel()]


def _open(made: FileDataset, drawn: Dataset) -> None:
    drawn.ContourGeometricType = "OPEN_PLANAR"


def _lopsided(made: FileDataset, drawn: Dataset) -> None:
    drawn.ContourData = list(drawn.ContourData)[:-1]


def _no_numbers(made: FileDataset, drawn: Dataset) -> None:
    del drawn.ContourData


def _patient(made: FileDataset, _: Dataset) -> None:
    made.PatientID = "somebody else"


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (_frame, Reason.REFERENCE_FRAME),
        (_region_frame, Reason.REFERENCE_FRAME),
        (_off_plane, Reason.REFERENCE_MOVED),
        (_between, Reason.REFERENCE_SLICES),
        (_other_slice, Reason.REFERENCE_SLICES),
        (_outside, Reason.REFERENCE_OUTSIDE),
        (_open, Reason.REFERENCE_KIND),
        (_lopsided, Reason.DAMAGED),
        (_no_numbers, Reason.DAMAGED),
        (_patient, Reason.REFERENCE_PATIENT),
    ],
)
def test_what_does_not_match_is_refused_by_name(tmp_path: Path, spoil, reason: Reason) -> None:
    sources = real_series(tmp_path)
    drawn = contour(sources[1], BLOB)
    made = structure_set(sources[0], [[contour(sources[0], BLOB), drawn]])
    spoil(made, made.ROIContourSequence[0].ContourSequence[1])
    made.save_as(tmp_path / "rt.dcm")
    _, findings, reports = ingested(tmp_path)
    assert (reports["rt.dcm"].status, reports["rt.dcm"].reason) == (Status.REFUSED, reason)
    assert list(findings.values()) == [None] * 4


def test_images_without_a_place_take_no_contours(tmp_path: Path) -> None:
    sources = real_series(tmp_path, count=2)
    made = structure_set(sources[0], [[contour(sources[0], BLOB)]])
    for number, source in enumerate(sources):
        del source.PixelSpacing
        source.save_as(tmp_path / f"{number}.dcm")
    made.save_as(tmp_path / "rt.dcm")
    assert ingested(tmp_path)[2]["rt.dcm"].reason is Reason.REFERENCE_NO_GEOMETRY
