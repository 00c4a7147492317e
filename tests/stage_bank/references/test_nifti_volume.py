"""Volumes read without nibabel's image classes, against nibabel; slices against coordinates."""

from __future__ import annotations

import gzip
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nibabel.testing import data_path
from scipy.spatial.transform import Rotation

from stage_bank.dicom.read import Refused
from stage_bank.ingest import Reason
from stage_bank.ingest.references import nifti_volume
from stage_bank.ingest.references.nifti_volume import Volume, read_volume


def affine(seed: int, spacing: tuple[float, float, float] = (0.8, 1.1, 3.0)) -> np.ndarray:
    """A rotation by any angles, axes swapped and reversed."""
    rng = np.random.default_rng(seed)
    turn = np.asarray(Rotation.random(random_state=seed).as_matrix())
    order = np.eye(3)[rng.permutation(3)] * rng.choice([-1.0, 1.0], (3, 1))
    made = np.eye(4)
    made[:3, :3] = turn @ order @ np.diag(spacing)
    made[:3, 3] = rng.uniform(-200, 200, 3)
    return made


def expect_same_values(volume: Volume, image: nib.Nifti1Image) -> None:
    """Every pixel of a slice has the value that nibabel gives at the same place in the patient."""
    values = np.asarray(image.get_fdata()).reshape(*image.shape, 1)[:, :, :, ...]
    values = values.reshape(*(*image.shape, 1)[:3], -1)[..., 0]
    to_voxel = np.linalg.inv(image.affine)
    assert sum(volume.stored.shape) == sum(values.shape)
    for index in range(volume.stored.shape[volume.axis]):
        points = volume.place(index).coordinates()
        right_anterior = np.stack([-points[0], -points[1], points[2], np.ones(points[0].shape)])
        voxels = np.einsum("ij,jrc->irc", to_voxel, right_anterior)[:3]
        assert np.allclose(voxels, np.round(voxels), atol=1e-3)
        i, j, k = np.round(voxels).astype(int)
        assert np.allclose(volume.values(index), values[i, j, k], rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("seed", range(20))
def test_slices_lie_where_nibabel_says(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    dtype = rng.choice(["u1", "<i2", ">i2", "<u2", "<i4", "<f4", ">f4", "<f8"])
    data = (rng.random((7, 6, 5)) * 200).astype(dtype)
    kind = nib.Nifti2Image if seed % 3 == 0 else nib.Nifti1Image
    image = kind(data, affine(seed))
    if seed % 2:
        image.header.set_slope_inter(0.5, -3.0)
    path = tmp_path / ("x.nii.gz" if seed % 4 < 2 else "x.nii")
    nib.save(image, path)
    expect_same_values(read_volume(path), nib.load(path))


@pytest.mark.parametrize("name", ["anatomical.nii", "functional.nii", "example4d.nii.gz", "example_nifti2.nii.gz"])
def test_files_that_ship_with_nibabel(name: str) -> None:
    path = Path(data_path) / name
    expect_same_values(read_volume(path), nib.load(path))


def test_pictures_are_turned_as_readers_look_at_them() -> None:
    for seed in range(50):
        place = Volume(np.zeros((3, 3, 3), np.uint8), 1.0, 0.0, affine(seed), frozenset()).place(0)
        normal = int(np.argmax(np.abs(np.cross(place.across, place.down))))
        right, low = {0: ((1, 1), (2, -1)), 1: ((0, 1), (2, -1)), 2: ((0, 1), (1, 1))}[normal]
        assert place.across[right[0]] * right[1] >= -0.71
        assert place.down[low[0]] * low[1] >= -0.71


def test_slices_run_across_the_widest_spacing_or_upwards() -> None:
    for seed in range(20):
        wide = Volume(np.zeros((3, 3, 3), np.uint8), 1.0, 0.0, affine(seed), frozenset())
        assert wide.spacing[wide.axis] == pytest.approx(3.0)
    even = Volume(np.zeros((3, 3, 3), np.uint8), 1.0, 0.0, np.eye(4)[[1, 2, 0, 3]], frozenset())
    assert even.axis == 0


def written(path: Path, data: np.ndarray, where: np.ndarray | None = None) -> Path:
    nib.save(nib.Nifti1Image(data, np.eye(4) if where is None else where), path)
    return path


def reason(path: Path) -> Reason:
    with pytest.raises(Refused) as caught:
        read_volume(path)
    return caught.value.reason


def test_what_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = np.arange(60.0).reshape(3, 4, 5)
    colour = np.zeros((3, 4, 5), dtype=[("R", "u1"), ("G", "u1"), ("B", "u1")])
    assert reason(written(tmp_path / "rgb.nii", colour)) is Reason.NIFTI_COLOUR
    assert reason(written(tmp_path / "complex.nii", data.astype(np.complex64))) is Reason.NIFTI_COLOUR
    assert reason(written(tmp_path / "five.nii", data.reshape(3, 4, 5, 1, 1).repeat(2, axis=4))) is Reason.NIFTI_AXES
    sheared = np.eye(4)
    sheared[0, 1] = 0.3
    assert reason(written(tmp_path / "sheared.nii", data, sheared)) is Reason.NIFTI_AXES
    whole = written(tmp_path / "whole.nii.gz", data)
    packed = whole.read_bytes()
    (tmp_path / "cut.nii.gz").write_bytes(packed[: len(packed) // 2])
    (tmp_path / "short.nii").write_bytes(gzip.decompress(packed)[:-1])
    (tmp_path / "plain.nii.gz").write_bytes(gzip.decompress(packed))
    (tmp_path / "text.nii").write_bytes(b"not a NIfTI file" * 40)
    for name in ("cut.nii.gz", "short.nii", "plain.nii.gz", "text.nii"):
        assert reason(tmp_path / name) is Reason.NIFTI_DAMAGED
    monkeypatch.setattr(nifti_volume, "MAX_BYTES", 60 * 8 - 1)
    assert reason(whole) is Reason.NIFTI_TOO_LARGE


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 351), st.integers(0, 255)), max_size=12), st.integers(0, 1000))
def test_a_damaged_header_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[int, int]], length: int
) -> None:
    folder = tmp_path_factory.mktemp("nifti")
    data = bytearray(written(folder / "good.nii", np.arange(60, dtype=np.int16).reshape(3, 4, 5)).read_bytes())
    for place, value in changes:
        data[place] = value
    (folder / "bad.nii").write_bytes(data[: length or None])
    try:
        volume = read_volume(folder / "bad.nii")
    except Refused:
        return
    assert volume.values(0).shape == (volume.place(0).rows, volume.place(0).columns)


def test_strings_of_header_and_extensions_are_gathered(tmp_path: Path) -> None:
    image = nib.Nifti1Image(np.zeros((3, 3, 3), np.int16), np.eye(4))
    image.header["descrip"] = b"Mueller^Anna 1961"
    image.header.extensions.append(nib.nifti1.Nifti1Extension(6, b"seen by Dr Schmidt-Rottluff"))
    nib.save(image, tmp_path / "x.nii.gz")
    texts = read_volume(tmp_path / "x.nii.gz").texts
    assert "Mueller^Anna 1961" in texts
    assert any("Schmidt-Rottluff" in text for text in texts)
