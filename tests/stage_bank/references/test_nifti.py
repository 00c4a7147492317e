"""NIfTI folders into pictures of patients, with masks."""

from __future__ import annotations

import json
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
from scipy import ndimage

from common.errors import DataError
from stage_bank.dicom.identity import Identity, pseudonym
from stage_bank.ingest import IngestResult, Reason, SiteMap, Status
from stage_bank.ingest.references import ingest_nifti
from tests.stage_bank.deidentify.test_faces import parts
from tests.stage_bank.dicom_files import KEY
from tests.stage_bank.references.test_nifti_volume import affine

SHAPE = (70, 60, 9)


def blobs(seed: int, shape: tuple[int, ...] = SHAPE) -> np.ndarray:
    """A mask of some size in every slice."""
    noise = ndimage.gaussian_filter(np.random.default_rng(seed).standard_normal(shape), (3, 3, 0))
    return noise > np.quantile(noise, 0.8)


def image_of(mask: np.ndarray, seed: int = 0) -> np.ndarray:
    """Bright exactly where the mask is."""
    noise = np.random.default_rng(seed).integers(0, 300, mask.shape)
    return (mask * 1000 + noise).astype(np.int16)


def save(data: np.ndarray, where: np.ndarray, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    nib.save(nib.Nifti1Image(data, where), path)
    return path


def site_map(folder: Path, *rows: str) -> SiteMap:
    path = folder / "map.csv"
    path.write_text("\n".join(["kind,value,unit", *rows]))
    return SiteMap.load(path)


def ingest(folder: Path, *rows: str, body_part: str = "CHEST", per_patient: int = 64) -> IngestResult:
    mapped = site_map(folder, *rows)
    return ingest_nifti(folder / "n", KEY, mapped, body_part=body_part, per_patient=per_patient)


def reasons(result: IngestResult) -> dict[str, tuple[Status, Reason]]:
    return {file.path: (file.status, file.reason) for file in result.report.files}


def expect_masks_on_their_pictures(result: IngestResult) -> None:
    for image in result.images:
        assert image.picture.findings is not None
        assert image.picture.findings.any()
        assert np.array_equal(image.pixels > 0.5, image.picture.findings)


@pytest.mark.parametrize("seed", range(8))
def test_masks_follow_their_pictures_whatever_the_affine(tmp_path: Path, seed: int) -> None:
    mask, where = blobs(seed), affine(seed)
    save(image_of(mask), where, tmp_path / "n/a/scan_ct.nii.gz")
    save(mask.astype(np.uint8) * (seed + 1), where, tmp_path / "n/a/scan_ct_seg.nii.gz")
    result = ingest(tmp_path, "patient,scan_ct,unit 1")
    assert len(result.images) == 8
    assert {image.modality for image in result.images} == {"CT"}
    expect_masks_on_their_pictures(result)
    assert reasons(result) == {
        "a/scan_ct.nii.gz": (Status.TAKEN, Reason.TAKEN),
        "a/scan_ct_seg.nii.gz": (Status.TAKEN, Reason.REFERENCE),
    }


def test_rounding_in_a_mask_does_not_turn_it(tmp_path: Path) -> None:
    half = np.sqrt(0.5)
    where = np.array([[1, 0, 0, 0], [0, half, -half, 0], [0, half, half, 0], [0, 0, 0, 1]])
    nearly = where + 1e-5 * np.array([[0, 0, 0, 0], [0, 0, 0, 0], [0, -1, 1, 0], [0, 0, 0, 0]])
    mask = blobs(0, (60, 56, 52))
    save(image_of(mask), where, tmp_path / "n/x_ct.nii")
    save(mask.astype(np.uint8), nearly, tmp_path / "n/x_ct_seg.nii")
    result = ingest(tmp_path, "patient,x_ct,A")
    assert len(result.images) == 8
    expect_masks_on_their_pictures(result)


def nnunet(root: Path, labels: object, channels: object, key: str = "channel_names") -> None:
    for case in ("LIVER_001", "LIVER_002"):
        mask, where = blobs(len(case)), affine(3)
        for channel in range(2):
            save(image_of(mask, channel), where, root / f"imagesTr/{case}_{channel:04d}.nii.gz")
        save(mask.astype(np.uint8) * 2, where, root / f"labelsTr/{case}.nii.gz")
    save(image_of(blobs(7), 7), affine(4), root / "imagesTs/LIVER_009_0000.nii.gz")
    (root / "dataset.json").write_text(json.dumps({key: channels, "labels": labels}))


@pytest.mark.parametrize(
    ("labels", "channels", "key"),
    [
        ({"background": 0, "liver": [1, 2], "tumour": 2, "ignore": 3}, {"0": "CT", "1": "T1w"}, "channel_names"),
        ({"0": "background", "1": "liver", "2": "tumour"}, {"0": "CT", "1": "MRI"}, "modality"),
    ],
)
def test_the_nnunet_layout(tmp_path: Path, labels: object, channels: object, key: str) -> None:
    nnunet(tmp_path / "n/Dataset007_Liver", labels, channels, key)
    result = ingest(tmp_path, "patient,LIVER_001,A", "patient,LIVER_002,B", "patient,LIVER_009,A")
    files = reasons(result)
    taken = {name for name, (status, _) in files.items() if status is Status.TAKEN}
    assert taken == set(files)
    assert len(files) == 4 + 2 + 1 + 1
    assert result.report.patients == 2
    assert sorted({image.modality for image in result.images}) == ["CT", "MR"]
    assert {image.picture.findings is None for image in result.images} == {True, False}
    expected = pseudonym(KEY, Identity("\0site map", "A", "", "", "", ""))
    assert expected in {image.patient for image in result.images}


def test_undeclared_labels_are_refused(tmp_path: Path) -> None:
    nnunet(tmp_path / "n", {"background": 0, "liver": 1}, {"0": "CT", "1": "CT"})
    result = ingest(tmp_path, "patient,LIVER_001,A")
    assert reasons(result)["labelsTr/LIVER_001.nii.gz"] == (Status.REFUSED, Reason.REFERENCE_VALUES)
    assert all(image.picture.findings is None for image in result.images)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"labels": {"a": 1}}', '{"labels": 3, "channel_names": {}}'])
def test_a_damaged_dataset_json_is_named(tmp_path: Path, text: str) -> None:
    nnunet(tmp_path / "n", {}, {})
    (tmp_path / "n/dataset.json").write_text(text)
    files = reasons(ingest(tmp_path, "patient,LIVER_001,A"))
    expected = Reason.NIFTI_LAYOUT
    if text:
        assert files["dataset.json"] == (Status.REFUSED, expected)
    else:  # zero bytes: not even looked at, and left to the report of the whole folder
        assert "dataset.json" not in files


def test_cases_without_a_patient_are_quarantined(tmp_path: Path) -> None:
    save(image_of(blobs(0)), np.eye(4), tmp_path / "n/known_ct.nii")
    save(image_of(blobs(1)), np.eye(4), tmp_path / "n/stranger_ct.nii")
    result = ingest(tmp_path, "file,known_ct.nii,A")
    assert reasons(result)["stranger_ct.nii"] == (Status.QUARANTINED, Reason.UNMAPPED)
    assert reasons(result)["known_ct.nii"] == (Status.TAKEN, Reason.TAKEN)
    without = ingest_nifti(tmp_path / "n", KEY)
    assert not without.images
    assert {file.reason for file in without.report.files} == {Reason.UNMAPPED}


def _moved(where: np.ndarray) -> np.ndarray:
    where = where.copy()
    where[0, 3] += 0.4
    return where


def _mirrored(where: np.ndarray) -> np.ndarray:
    where = where.copy()
    where[:3, 3] += where[:3, 0] * (SHAPE[0] - 1)
    where[:3, 0] *= -1
    return where


def _wider(where: np.ndarray) -> np.ndarray:
    return where @ np.diag([1.01, 1.0, 1.0, 1.0])


@pytest.mark.parametrize(
    ("change", "reason"),
    [(_moved, Reason.REFERENCE_AFFINE), (_mirrored, Reason.REFERENCE_AFFINE), (_wider, Reason.REFERENCE_SPACING)],
)
def test_a_mask_that_lies_elsewhere_is_refused(tmp_path: Path, change, reason: Reason) -> None:
    mask, where = blobs(0), affine(1)
    save(image_of(mask), where, tmp_path / "n/images/x_mr.nii.gz")
    save(mask.astype(np.uint8), change(where), tmp_path / "n/masks/x_mr.nii.gz")
    result = ingest(tmp_path, "patient,x_mr,A")
    assert reasons(result)["masks/x_mr.nii.gz"] == (Status.REFUSED, reason)
    assert len(result.images) == 8
    assert all(image.picture.findings is None for image in result.images)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (blobs(0)[:, :, :-1].astype(np.uint8), Reason.REFERENCE_SHAPE),
        (blobs(0).transpose(1, 0, 2).astype(np.uint8), Reason.REFERENCE_SHAPE),
        (blobs(0).astype(np.float32) * 0.5, Reason.REFERENCE_VALUES),
        (np.where(blobs(0), np.nan, 0.0), Reason.REFERENCE_VALUES),
        (blobs(0).astype(np.complex64), Reason.NIFTI_COLOUR),
    ],
)
def test_a_mask_of_other_values_or_shape_is_refused(tmp_path: Path, values: np.ndarray, reason: Reason) -> None:
    save(image_of(blobs(0)), np.eye(4), tmp_path / "n/x_mr.nii")
    save(values, np.eye(4), tmp_path / "n/x_mr_mask.nii")
    result = ingest(tmp_path, "patient,x_mr,A")
    assert reasons(result)["x_mr_mask.nii"] == (Status.REFUSED, reason)
    assert all(image.picture.findings is None for image in result.images)


def test_a_mask_alone_is_no_image(tmp_path: Path) -> None:
    save(blobs(0).astype(np.uint8), np.eye(4), tmp_path / "n/labelsTr/x.nii.gz")
    save(blobs(0).astype(np.uint8), np.eye(4), tmp_path / "n/y_seg.nii.gz")
    result = ingest(tmp_path, "patient,x,A", "patient,y_seg,A", "patient,y,A")
    assert not result.images
    assert set(reasons(result).values()) == {(Status.REFUSED, Reason.REFERENCE_UNUSED)}


def test_damaged_files_are_named_and_the_rest_goes_on(tmp_path: Path) -> None:
    save(image_of(blobs(0)), np.eye(4), tmp_path / "n/good_ct.nii.gz")
    (tmp_path / "n/bad_ct.nii.gz").write_bytes((tmp_path / "n/good_ct.nii.gz").read_bytes()[:900])
    (tmp_path / "n/empty_ct.nii").write_bytes(b"")
    save(np.full(SHAPE, 7, np.int16), np.eye(4), tmp_path / "n/flat_ct.nii")
    save(image_of(blobs(0))[:40], np.eye(4), tmp_path / "n/small_ct.nii")
    save(np.full(SHAPE, np.nan, np.float32), np.eye(4), tmp_path / "n/void_ct.nii")
    names = ("good", "bad", "empty", "flat", "small", "void")
    files = reasons(ingest(tmp_path, *(f"patient,{name}_ct,A" for name in names)))
    assert files == {
        "good_ct.nii.gz": (Status.TAKEN, Reason.TAKEN),
        "bad_ct.nii.gz": (Status.REFUSED, Reason.NIFTI_DAMAGED),
        "empty_ct.nii": (Status.REFUSED, Reason.EMPTY_FILE),
        "flat_ct.nii": (Status.REFUSED, Reason.FLAT),
        "small_ct.nii": (Status.REFUSED, Reason.TOO_SMALL),
        "void_ct.nii": (Status.REFUSED, Reason.FLAT),
    }


def test_limits_and_duplicates_hold_within_a_patient(tmp_path: Path) -> None:
    for name in ("a_ct", "b_ct"):
        save(image_of(blobs(0))[:, :, :8], np.eye(4), tmp_path / f"n/{name}.nii")
    save(image_of(blobs(1), 1), np.eye(4), tmp_path / "n/c_ct.nii")
    rows = ("patient,a_ct,A", "patient,b_ct,A", "patient,c_ct,A")
    result = ingest(tmp_path, *rows)
    assert reasons(result)["b_ct.nii"] == (Status.SPARE, Reason.DUPLICATE)
    assert len(result.images) == 16
    assert len({image.series for image in result.images}) == 2
    limited = ingest(tmp_path, *rows, per_patient=3)
    assert len(limited.images) == 3
    assert reasons(limited)["c_ct.nii"] == (Status.SPARE, Reason.ENOUGH)


def head(where: np.ndarray, shape: tuple[int, int, int]) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Hounsfield units of a simple head, and where its parts are."""
    voxels = np.stack([*np.indices(shape), np.ones(shape)]).reshape(4, -1)
    points = np.diag([-1.0, -1.0, 1.0, 1.0]) @ where @ voxels
    found = {name: part.reshape(shape) for name, part in parts(points[:3].reshape(3, 1, -1)).items()}
    return np.where(found["head"], 40, -1000).astype(np.int16), found


@pytest.mark.parametrize("flips", [(1, 1, 1), (-1, -1, 1), (1, -1, -1)])
def test_heads_lose_their_face(tmp_path: Path, flips: tuple[int, int, int]) -> None:
    shape, spacing = (100, 100, 84), 2.8
    where = np.diag([*(spacing * np.array(flips)), 1.0])
    where[:3, 3] = -where[:3, :3] @ (np.array(shape) / 2)
    values, found = head(where, shape)
    save(values, where, tmp_path / "n/brain_ct.nii.gz")
    save(found["nose"].astype(np.uint8), where, tmp_path / "n/brain_ct_mask.nii.gz")
    result = ingest(tmp_path, "patient,brain_ct,A", body_part="")
    assert len(result.images) == 8
    noses = [image for image in result.images if image.picture.findings is not None and image.picture.findings.any()]
    assert noses
    for image in noses:
        assert image.picture.findings is not None
        assert image.pixels[image.picture.findings].max() < 0.1
    assert max(float(image.pixels.mean()) for image in result.images) > 0.2


def test_a_volume_that_may_be_a_head_is_refused_unless_the_site_says_what_it_shows(tmp_path: Path) -> None:
    save(image_of(blobs(0, (70, 60, 20))), np.diag([3.0, 3.0, 3.0, 1.0]), tmp_path / "n/x_mr.nii")
    assert reasons(ingest(tmp_path, "patient,x_mr,A", body_part=""))["x_mr.nii"] == (Status.REFUSED, Reason.HEAD)
    assert reasons(ingest(tmp_path, "patient,x_mr,A", body_part="KNEE"))["x_mr.nii"] == (Status.TAKEN, Reason.TAKEN)


def test_no_string_of_the_file_follows_into_the_pictures(tmp_path: Path) -> None:
    image = nib.Nifti1Image(image_of(blobs(0)), np.eye(4))
    image.header["descrip"] = b"Mueller^Anna 1961"
    (tmp_path / "n").mkdir()
    nib.save(image, tmp_path / "n/anna1961_ct.nii.gz")
    result = ingest(tmp_path, "patient,anna1961_ct,A")
    assert {"Mueller^Anna 1961", "anna1961_ct"} <= result.identifiers
    for taken in result.images:
        assert dict(taken.picture.facts) == {"modality": "CT"}
        assert not any("anna" in text.lower() for text in (taken.patient, taken.series))


def test_a_missing_folder_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not exist"):
        ingest_nifti(tmp_path / "nowhere", KEY)
