"""A head of simple shapes, cut in every direction: the face goes, the brain stays; what is no whole head is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pydicom
import pytest
from numpy.typing import NDArray
from pydicom.dataset import Dataset, FileDataset
from pydicom.uid import EnhancedCTImageStorage

from stage_bank.deidentify import FaceCheck, Options, ProfileName, deidentify, deidentify_with, open_profile
from stage_bank.deidentify.faces import face_plane
from stage_bank.deidentify.folder import deidentify_folder
from stage_bank.deidentify.heads import Shown, Slice, shown, slices_of
from stage_bank.dicom.read import Refused
from stage_bank.ingest import Reason
from tests.stage_bank.dicom_files import KEY, ct, write

PROFILE = open_profile(ProfileName.MODIFIED_DATES, KEY)
AXES = {
    "axial": ((1, 0, 0), (0, 1, 0)),
    "sagittal": ((0, 1, 0), (0, 0, -1)),
    "coronal": ((1, 0, 0), (0, 0, -1)),
}
SIDE = 96
AIR, FLESH, BRAIN = 24, 1064, 1060


def ball(points: NDArray[np.float64], centre: tuple[float, ...], radii: tuple[float, ...]) -> NDArray[np.bool_]:
    scaled = (points - np.reshape(centre, (3, 1, 1))) / np.reshape(radii, (3, 1, 1))
    return np.asarray((scaled**2).sum(axis=0) <= 1)


def parts(points: NDArray[np.float64]) -> dict[str, NDArray[np.bool_]]:
    """Where head, brain and the pieces of the face are; left, posterior, superior in mm."""
    x, y, z = points
    nose = (np.abs(x) < 12) & (y < -90) & (y > -118) & (z < -25) & (z > -55)
    eyes = ball(points, (32, -82, 0), (12, 12, 12)) | ball(points, (-32, -82, 0), (12, 12, 12))
    mouth = (np.abs(x) < 22) & (y < -85) & (y > -104) & (z < -62) & (z > -72)
    brain = ball(points, (0, 5, 45), (65, 80, 55))
    skull = ball(points, (0, 0, 0), (75, 97, 115)) | ball(points, (0, -40, -40), (60, 62, 78))
    return {"head": skull | nose | eyes | mouth, "brain": brain, "nose": nose, "eyes": eyes, "mouth": mouth}


def places(kind: str, count: int = 80, tilt: float = 0.0, low: float = -130.0, gap: float = 3.2) -> list[Slice]:
    """Slices through the head; `tilt` in degrees nods it forward."""
    across, down = (np.array(axis, dtype=float) for axis in AXES[kind])
    turn = np.radians(tilt)
    nod = np.array([[1, 0, 0], [0, np.cos(turn), -np.sin(turn)], [0, np.sin(turn), np.cos(turn)]])
    normal = np.cross(across, down)
    spacing = 2.8
    corner = -(across + down) * spacing * SIDE / 2
    steps = [low + gap * index for index in range(count)]
    return [
        Slice(nod @ (corner + normal * step), nod @ across, nod @ down, (spacing, spacing), SIDE, SIDE)
        for step in steps
    ]


def pixels(place: Slice) -> NDArray[np.uint16]:
    found = parts(place.coordinates())
    return np.where(found["head"], FLESH, AIR).astype(np.uint16)


def header(**values: object) -> FileDataset:
    return ct(BodyPartExamined="HEAD", RescaleIntercept="-1024", RescaleSlope="1", **values)


def one_file(slices: list[Slice], **values: object) -> FileDataset:
    """An enhanced CT that holds all slices."""
    dataset = header(SOPClassUID=EnhancedCTImageStorage, SeriesDescription="Head without contrast", **values)
    dataset.NumberOfFrames = len(slices)
    dataset.Rows = dataset.Columns = SIDE
    dataset.PixelData = np.stack([pixels(place) for place in slices]).tobytes()
    shared, measures, orientation = Dataset(), Dataset(), Dataset()
    measures.PixelSpacing = list(slices[0].spacing)
    orientation.ImageOrientationPatient = [f"{v:.6f}" for v in (*slices[0].across, *slices[0].down)]
    shared.PixelMeasuresSequence, shared.PlaneOrientationSequence = [measures], [orientation]
    dataset.SharedFunctionalGroupsSequence = [shared]
    frames = []
    for place in slices:
        group, position = Dataset(), Dataset()
        position.ImagePositionPatient = [f"{v:.4f}" for v in place.position]
        group.PlanePositionSequence = [position]
        frames.append(group)
    dataset.PerFrameFunctionalGroupsSequence = frames
    return dataset


@pytest.mark.parametrize("tilt", [-8.0, 0.0, 8.0])
@pytest.mark.parametrize("kind", sorted(AXES))
def test_the_face_goes_and_the_brain_stays(kind, tilt):
    low = {"axial": -130.0, "sagittal": -128.0, "coronal": -128.0}[kind]
    slices = places(kind, tilt=tilt, low=low)
    plane = face_plane(((place, pixels(place)) for place in slices), header())
    assert plane is not None
    gone = {name: [0, 0] for name in ("brain", "nose", "eyes", "mouth")}
    for place in slices:
        mask, found = plane.mask(place), parts(place.coordinates())
        for name, counts in gone.items():
            counts[0] += int((mask & found[name]).sum())
            counts[1] += int(found[name].sum())
    shares = {name: removed / total for name, (removed, total) in gone.items()}
    assert shares["nose"] == shares["mouth"] == 1.0
    assert shares["eyes"] > 0.99
    assert shares["brain"] < 0.01


def test_a_head_in_one_file_loses_its_face_and_says_so():
    slices = places("axial")
    dataset = one_file(slices)
    clean = deidentify(dataset, KEY)
    codes = [entry.CodeValue for entry in clean.DeidentificationMethodCodeSequence]
    assert "113102" in codes
    assert clean.RecognizableVisualFeatures == "NO"
    before, after = dataset.pixel_array, clean.pixel_array
    changed = before != after
    assert changed.any()
    assert (after[changed] == AIR).all()
    face = np.stack([parts(place.coordinates())["nose"] for place in slices])
    assert (after[face] == AIR).all()


def test_the_site_may_keep_faces_and_nothing_is_claimed_then():
    dataset = one_file(places("axial"))
    clean = deidentify(dataset, KEY, options=Options(faces=FaceCheck.KEEP))
    np.testing.assert_array_equal(clean.pixel_array, dataset.pixel_array)
    assert "113102" not in [entry.CodeValue for entry in clean.DeidentificationMethodCodeSequence]
    assert "RecognizableVisualFeatures" not in clean


def test_a_few_frames_show_no_face():
    dataset = one_file(places("axial"))
    clean = deidentify(dataset, KEY, frames=[10, 40, 70])
    np.testing.assert_array_equal(clean.pixel_array, dataset.pixel_array[[10, 40, 70]])


def reason(slices: list[Slice | None], values: list[NDArray[np.uint16]] | None = None) -> Reason:
    stored = values or [pixels(place) if place else np.zeros((SIDE, SIDE), np.uint16) for place in slices]
    with pytest.raises(Refused) as refusal:
        face_plane(zip(slices, stored, strict=True), header())
    return refusal.value.reason


def test_what_is_no_whole_head_is_refused():
    assert reason(places("axial", count=50)) is Reason.HEAD  # the top is not in view
    assert reason([*places("axial"), None]) is Reason.HEAD  # one slice without geometry
    turned = places("axial")
    assert reason([*turned[:40], *places("sagittal")[40:]]) is Reason.HEAD  # two directions
    assert reason(turned, [np.full((SIDE, SIDE), AIR, np.uint16)] * len(turned)) is Reason.HEAD  # nothing there
    narrow = [np.where(np.abs(np.arange(SIDE) - 48)[:, None] < 9, pixels(place), AIR) for place in turned]
    assert reason(turned, narrow) is Reason.HEAD  # not the shape of a head


def test_what_is_wider_than_a_head_everywhere_has_none_when_nothing_names_it():
    slices = places("axial")
    trunk = [np.full((SIDE, SIDE), FLESH, np.uint16) for _ in slices]
    assert face_plane(zip(slices, trunk, strict=True), ct(RescaleIntercept="-1024")) is None


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"BodyPartExamined": "HEAD"}, Shown.HEAD),
        ({"BodyPartExamined": "brain "}, Shown.HEAD),
        ({"BodyPartExamined": "CHEST", "StudyDescription": "CT Head w/o"}, Shown.HEAD),
        ({"SeriesDescription": "t1_mprage_sag"}, Shown.HEAD),
        ({"BodyPartExamined": "CHEST"}, Shown.OTHER),
        ({"BodyPartExamined": "CHEST", "Modality": "MR"}, Shown.OTHER),
        ({"BodyPartExamined": "SOMETHING"}, Shown.PERHAPS),
        ({}, Shown.PERHAPS),
        ({"BodyPartExamined": "HEAD", "Modality": "CR"}, Shown.OTHER),
    ],
)
def test_what_a_header_says_about_heads(values, expected):
    assert shown([ct(**values)]) is expected


def series(folder: Path, slices: list[Slice], **values: object) -> None:
    for number, place in enumerate(slices):
        dataset = header(**values)
        dataset.SeriesInstanceUID, dataset.SOPInstanceUID = "1.2.3.4", f"1.2.3.4.{number}"
        dataset.file_meta.MediaStorageSOPInstanceUID = dataset.SOPInstanceUID
        dataset.Rows = dataset.Columns = SIDE
        dataset.PixelSpacing = list(place.spacing)
        dataset.ImagePositionPatient = [f"{v:.4f}" for v in place.position]
        dataset.ImageOrientationPatient = [f"{v:.6f}" for v in (*place.across, *place.down)]
        dataset.PixelData = pixels(place).tobytes()
        write(dataset, folder / f"{number}.dcm")


def test_a_series_of_files_is_one_head(tmp_path):
    slices = places("sagittal", low=-128.0)
    series(tmp_path / "in", slices)
    report = deidentify_folder(tmp_path / "in", tmp_path / "out", PROFILE, Options())
    assert report.complete
    assert all(file.done and file.done.face_removed for file in report.files)
    nose = 0
    for path in (tmp_path / "out").rglob("*.dcm"):
        clean = pydicom.dcmread(path)
        place = slices_of(clean, [0])[0]
        assert place is not None
        found = parts(place.coordinates())["nose"]
        nose += int(found.sum())
        assert (clean.pixel_array[found] == AIR).all()
    assert nose > 100


def test_damaged_slices_are_refused_alone(tmp_path):
    series(tmp_path / "in", places("axial"))
    data = (tmp_path / "in" / "40.dcm").read_bytes()
    (tmp_path / "in" / "40.dcm").write_bytes(data[:-900])
    lost = pydicom.dcmread(tmp_path / "in" / "41.dcm")
    del lost.ImagePositionPatient
    lost.save_as(tmp_path / "in" / "41.dcm")
    report = deidentify_folder(tmp_path / "in", tmp_path / "out", PROFILE, Options())
    refused = {file.path: file.refused for file in report.files if file.refused}
    assert refused == {"40.dcm": Reason.TRUNCATED, "41.dcm": Reason.HEAD}
    assert all(file.done.face_removed for file in report.files if file.done)


def test_a_series_whose_face_cannot_be_found_is_refused_by_name_and_others_go_on(tmp_path):
    series(tmp_path / "in", places("axial", count=40))
    write(ct("B-1", BodyPartExamined="CHEST"), tmp_path / "in" / "chest.dcm")
    report = deidentify_folder(tmp_path / "in", tmp_path / "out", PROFILE, Options())
    assert report.refusals == {Reason.HEAD.value: 40}
    assert [file.path for file in report.files if file.refused is None] == ["chest.dcm"]
    kept = deidentify_folder(tmp_path / "in", tmp_path / "kept", PROFILE, Options(faces=FaceCheck.KEEP))
    assert kept.complete


def test_a_face_found_elsewhere_is_blanked_whatever_the_header_says():
    mask = np.zeros((64, 64), bool)
    mask[10:20, 10:20] = True
    source = ct(BodyPartExamined="CHEST")
    result = deidentify_with(source, PROFILE, Options(face_mask=mask))
    after = result.dataset.pixel_array
    assert (after[mask] == source.pixel_array.min()).all()
    np.testing.assert_array_equal(after[~mask], source.pixel_array[~mask])
