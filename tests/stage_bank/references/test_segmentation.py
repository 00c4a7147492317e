"""Segmentations made by highdicom on real slices, read back bit by bit."""

from __future__ import annotations

from pathlib import Path

import highdicom as hd
import numpy as np
import pytest
from highdicom.seg import SegmentationTypeValues as Kind
from pydicom import dcmread
from pydicom.data import get_testdata_file
from pydicom.dataset import FileDataset
from pydicom.sr.codedict import codes
from pydicom.uid import generate_uid

from stage_bank.ingest import Reason, Status
from tests.stage_bank.references.series import SIDE, ingested, random_masks, real_series, turned


def segmentation(sources: list[FileDataset], masks: np.ndarray, kind: Kind = Kind.BINARY) -> hd.seg.Segmentation:
    """`masks`: boolean `[slices, rows, columns]`, or `[slices, rows, columns, segments]`."""
    count = masks.shape[3] if masks.ndim == 4 else 1
    descriptions = [
        hd.seg.SegmentDescription(
            number,
            f"lesion {number}",
            codes.SCT.MorphologicallyAbnormalStructure,
            codes.SCT.Lesion,
            hd.seg.SegmentAlgorithmTypeValues.MANUAL,
        )
        for number in range(1, count + 1)
    ]
    values = masks.astype(np.float32) if kind is Kind.FRACTIONAL else masks.astype(np.uint8)
    return hd.seg.Segmentation(
        source_images=sources,
        pixel_array=values,
        segmentation_type=kind,
        segment_descriptions=descriptions,
        series_instance_uid=generate_uid(),
        series_number=9,
        sop_instance_uid=generate_uid(),
        instance_number=1,
        manufacturer="m",
        manufacturer_model_name="m",
        software_versions="1",
        device_serial_number="1",
    )


def check(findings: dict[str, np.ndarray | None], sources: list[FileDataset], masks: np.ndarray) -> None:
    assert len(findings) == len(sources)
    for source, mask in zip(sources, masks, strict=True):
        assert np.array_equal(findings[f"{source.SOPInstanceUID}/0"], mask)


@pytest.mark.parametrize("kind", [Kind.BINARY, Kind.FRACTIONAL, Kind.LABELMAP])
def test_masks_come_back_exactly(tmp_path: Path, kind: Kind) -> None:
    sources, masks = real_series(tmp_path), random_masks(4)
    masks[2] = False  # highdicom leaves empty frames out
    segmentation(sources, masks, kind).save_as(tmp_path / "seg.dcm")
    _, findings, reports = ingested(tmp_path)
    check(findings, sources, masks)
    assert (reports["seg.dcm"].status, reports["seg.dcm"].reason) == (Status.TAKEN, Reason.REFERENCE)


def test_segments_and_files_add_up(tmp_path: Path) -> None:
    sources, one, other = real_series(tmp_path), random_masks(4, 1), random_masks(4, 2)
    segmentation(sources, np.stack([one, other], axis=3)).save_as(tmp_path / "two.dcm")
    extra = random_masks(4, 3)
    segmentation(sources, extra).save_as(tmp_path / "one.dcm")
    check(ingested(tmp_path)[1], sources, one | other | extra)


def test_frames_are_found_by_place_where_no_source_is_named(tmp_path: Path) -> None:
    sources, masks = real_series(tmp_path), random_masks(4)
    made = segmentation(sources[::-1], masks[::-1])
    for group in made.PerFrameFunctionalGroupsSequence:
        del group.DerivationImageSequence
    made.save_as(tmp_path / "seg.dcm")
    check(ingested(tmp_path)[1], sources, masks)


def test_frames_of_a_multi_frame_image(tmp_path: Path) -> None:
    path = get_testdata_file("eCT_Supplemental.dcm")
    assert path is not None
    source = dcmread(path)
    source.BodyPartExamined = "CHEST"
    source.save_as(tmp_path / "image.dcm")
    masks = np.random.default_rng(0).random(source.pixel_array.shape) < 0.1
    segmentation([source], masks).save_as(tmp_path / "seg.dcm")
    _, findings, reports = ingested(tmp_path)
    assert reports["seg.dcm"].reason is Reason.REFERENCE
    for key, mask in findings.items():
        assert np.array_equal(mask, masks[int(key.rpartition("/")[2])])


def test_a_part_of_a_pixel_counts_from_half(tmp_path: Path) -> None:
    sources = real_series(tmp_path)
    values = np.random.default_rng(0).random((4, SIDE, SIDE)).astype(np.float32)
    made = segmentation(sources, values, Kind.FRACTIONAL)
    made.save_as(tmp_path / "seg.dcm")
    check(ingested(tmp_path)[1], sources, np.round(values * 255) >= 127.5)


def _frame_of_reference(made: FileDataset) -> None:
    made.FrameOfReferenceUID = generate_uid()


def _orientation(made: FileDataset) -> None:
    axes = turned((11.0, -20.0, 30.0))
    plane = made.SharedFunctionalGroupsSequence[0].PlaneOrientationSequence[0]
    plane.ImageOrientationPatient = [f"{round(v, 8):.10g}" for v in (*axes[:, 0], *axes[:, 1])]


def _spacing(made: FileDataset) -> None:
    made.SharedFunctionalGroupsSequence[0].PixelMeasuresSequence[0].PixelSpacing = [0.75, 0.51]


def _shape(made: FileDataset) -> None:
    made.Rows, made.Columns = SIDE * 2, SIDE // 2


def _shifted(made: FileDataset) -> None:
    for group in made.PerFrameFunctionalGroupsSequence:
        position = group.PlanePositionSequence[0].ImagePositionPatient
        position[0] = f"{float(position[0]) + 0.3:.10g}"


def _unplaced(made: FileDataset) -> None:
    for group in made.PerFrameFunctionalGroupsSequence:
        del group.PlanePositionSequence
        del group.DerivationImageSequence


def _patient(made: FileDataset) -> None:
    made.PatientID = "somebody else"


def _other_study_of_nobody(made: FileDataset) -> None:
    made.PatientID, made.StudyInstanceUID = "", generate_uid()


def _groups(made: FileDataset) -> None:
    del made.PerFrameFunctionalGroupsSequence


def _elsewhere(made: FileDataset) -> None:
    made.ReferencedSeriesSequence[0].SeriesInstanceUID = generate_uid()
    for group in made.PerFrameFunctionalGroupsSequence:
        for source in group.DerivationImageSequence[0].SourceImageSequence:
            source.ReferencedSOPInstanceUID = generate_uid()
    for item in made.ReferencedSeriesSequence[0].ReferencedInstanceSequence:
        item.ReferencedSOPInstanceUID = generate_uid()


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (_frame_of_reference, Reason.REFERENCE_FRAME),
        (_orientation, Reason.REFERENCE_ORIENTATION),
        (_spacing, Reason.REFERENCE_SPACING),
        (_shape, Reason.REFERENCE_SHAPE),
        (_shifted, Reason.REFERENCE_MOVED),
        (_unplaced, Reason.REFERENCE_NO_GEOMETRY),
        (_patient, Reason.REFERENCE_PATIENT),
        (_other_study_of_nobody, Reason.REFERENCE_PATIENT),
        (_groups, Reason.DAMAGED),
        (_elsewhere, Reason.REFERENCE_UNUSED),
    ],
)
def test_what_does_not_match_is_refused_by_name(tmp_path: Path, spoil, reason: Reason) -> None:
    sources = real_series(tmp_path)
    made = segmentation(sources, random_masks(4))
    spoil(made)
    made.save_as(tmp_path / "seg.dcm")
    result, findings, reports = ingested(tmp_path)
    assert (reports["seg.dcm"].status, reports["seg.dcm"].reason) == (Status.REFUSED, reason)
    assert len(result.images) == 4
    assert all(mask is None for mask in findings.values())


def test_a_slice_outside_the_series_is_refused(tmp_path: Path) -> None:
    sources = real_series(tmp_path)
    made = segmentation(sources, random_masks(4))
    (tmp_path / "2.dcm").unlink()
    made.save_as(tmp_path / "seg.dcm")
    _, findings, reports = ingested(tmp_path)
    assert reports["seg.dcm"].reason is Reason.REFERENCE_SLICES
    assert len(findings) == 3


def test_a_blank_patient_is_taken_within_the_study(tmp_path: Path) -> None:
    sources, masks = real_series(tmp_path), random_masks(4)
    made = segmentation(sources, masks)
    made.PatientID = ""
    made.save_as(tmp_path / "seg.dcm")
    check(ingested(tmp_path)[1], sources, masks)


def test_a_mismatch_leaves_the_other_references_alone(tmp_path: Path) -> None:
    sources, masks = real_series(tmp_path), random_masks(4)
    segmentation(sources, masks).save_as(tmp_path / "good.dcm")
    bad = segmentation(sources, random_masks(4, 1))
    _spacing(bad)
    bad.save_as(tmp_path / "bad.dcm")
    _, findings, reports = ingested(tmp_path)
    check(findings, sources, masks)
    assert reports["good.dcm"].reason is Reason.REFERENCE
    assert reports["bad.dcm"].reason is Reason.REFERENCE_SPACING


@pytest.mark.parametrize("keep", [0.3, 0.9])
def test_a_cut_file_is_refused(tmp_path: Path, keep: float) -> None:
    sources = real_series(tmp_path)
    path = tmp_path / "seg.dcm"
    segmentation(sources, random_masks(4)).save_as(path)
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * keep)])
    result, findings, reports = ingested(tmp_path)
    assert reports["seg.dcm"].status is Status.REFUSED
    assert all(mask is None for mask in findings.values())
    assert len(result.images) == 4
