"""Pictures against what pydicom's own processing makes of the same files."""

from pathlib import Path

import data_store
import numpy as np
import pydicom
import pytest
from pydicom.data import get_testdata_file
from pydicom.dataset import Dataset
from pydicom.pixels.processing import apply_rescale
from pydicom.sequence import Sequence

from stage_bank.dicom import read
from stage_bank.dicom.read import read_dataset
from stage_bank.ingest import Reason, ingest_folder
from stage_bank.ingest.render import render
from tests.stage_bank.dicom_files import KEY, ct, picture, write

LARGE = Path(data_store.__file__).parent / "data"


def straight_line(picture: np.ndarray, values: np.ndarray) -> None:
    """Wherever the picture is neither black nor white, it rises in a straight line with the values."""
    inside = (picture > 0.01) & (picture < 0.99)
    assert inside.mean() > 0.05
    slope, offset = np.polyfit(values[inside], picture[inside], 1)
    assert slope > 0
    np.testing.assert_allclose(picture[inside], slope * values[inside] + offset, atol=1e-4)


@pytest.mark.parametrize(
    "name",
    [
        "CT_small.dcm", "MR_small.dcm", "MR_small_bigendian.dcm", "MR_small_RLE.dcm", "MR_small_jp2klossless.dcm",
        "MR_small_jpeg_ls_lossless.dcm", "693_UNCI.dcm", "693_J2KR.dcm", "explicit_VR-UN.dcm", "emri_small.dcm",
        "emri_small_RLE.dcm", "emri_small_jpeg_2k_lossless.dcm", "emri_small_big_endian.dcm",
    ],
)  # fmt: skip
def test_pictures_follow_pydicoms_rescaled_values(name):
    place = LARGE / name if (LARGE / name).exists() else Path(get_testdata_file(name) or "")
    dataset = read_dataset(place)
    values = apply_rescale(dataset.pixel_array, dataset).astype(np.float64)
    frames = values if values.ndim == 3 else values[None]
    pictures = render(dataset)
    assert len(pictures) == len(frames)
    for found, reference in zip(pictures, frames, strict=True):
        straight_line(found.astype(np.float64), reference)


def _group(slope: float, intercept: float, centre: float, width: float) -> Dataset:
    rescale, window, group = Dataset(), Dataset(), Dataset()
    rescale.RescaleSlope, rescale.RescaleIntercept = slope, intercept
    window.WindowCenter, window.WindowWidth = centre, width
    group.PixelValueTransformationSequence = Sequence([rescale])
    group.FrameVOILUTSequence = Sequence([window])
    return group


def test_every_frame_has_its_own_rescaling_and_window():
    frames = np.stack([picture(1), picture(2)])
    dataset = ct(pixels=frames, RescaleSlope="7")
    dataset.PerFrameFunctionalGroupsSequence = Sequence([_group(1, 0, 1250, 1500), _group(2, -100, 2000, 3000)])
    first, second = render(dataset)
    np.testing.assert_allclose(first, np.clip((frames[0] - 500.0) / 1500, 0, 1), atol=1e-5)
    np.testing.assert_allclose(second, np.clip((frames[1] * 2.0 - 100 - 500) / 3000, 0, 1), atol=1e-5)


def test_a_shared_functional_group_counts_for_all_frames():
    frames = np.stack([picture(1), picture(2)])
    dataset = ct(pixels=frames)
    dataset.SharedFunctionalGroupsSequence = Sequence([_group(2, -100, 2000, 3000)])
    for found, stored in zip(render(dataset), frames, strict=True):
        np.testing.assert_allclose(found, np.clip((stored * 2.0 - 600) / 3000, 0, 1), atol=1e-5)


@pytest.mark.parametrize("bits", [8, 10, 12])
def test_overlays_in_unused_bits_change_nothing(tmp_path, bits):
    clean = picture() >> (12 - bits)
    drawn = clean | (np.random.default_rng(1).integers(0, 2, clean.shape).astype(np.uint16) << 15)
    for name, pixels in (("clean", clean), ("drawn", drawn)):
        write(ct(name.upper() + "-1", pixels, BitsStored=bits, HighBit=bits - 1), tmp_path / f"{name}.dcm")
    first, second = ingest_folder(tmp_path, KEY).images
    np.testing.assert_array_equal(first.pixels, second.pixels)


def test_nothing_planted_in_headers_reaches_a_picture(tmp_path):
    dataset = ct("MRN-4711", PatientName="Doe^Peter", SeriesDescription="knee of Peterson")
    dataset.private_block(0x0011, "ACME", create=True).add_new(1, "LO", "secretary Jane Roe")
    dataset.add_new(0x60000022, "LO", "overlay of Peter")
    dataset.preamble = b"scanned by Miller".ljust(128, b"\0")
    write(dataset, tmp_path / "Peter Doe.dcm")
    (image,) = ingest_folder(tmp_path, KEY).images
    assert dict(image.picture.facts) == {"modality": "CT"}
    kept = repr(image.picture.facts) + image.patient + image.series
    assert not any(word in kept for word in ("4711", "Doe", "Peter", "Roe", "Miller", str(dataset.SeriesInstanceUID)))
    assert pydicom.dcmread(tmp_path / "Peter Doe.dcm").PatientID == "MRN-4711"


@pytest.mark.parametrize("bits", [8, 16])
def test_frames_left_on_disk_are_the_same_as_frames_read_at_once(tmp_path, monkeypatch, bits):
    frames = np.random.default_rng(1).integers(0, 1 << bits, (20, 64, 64)).astype(f"u{bits // 8}")
    dataset = ct(pixels=frames, BitsAllocated=bits, BitsStored=bits, HighBit=bits - 1)
    dataset.PixelData = frames.tobytes()
    file = write(dataset, tmp_path / "dicom" / "x.dcm")
    at_once = ingest_folder(tmp_path / "dicom", KEY)
    monkeypatch.setattr(read, "LARGE", 40_000)
    assert read.pixels_on_disk(read.read_dataset(file)) is not None
    later = ingest_folder(tmp_path / "dicom", KEY)
    assert later.identifiers == at_once.identifiers
    for one, other in zip(later.images, at_once.images, strict=True):
        np.testing.assert_array_equal(one.pixels, other.pixels)
    file.write_bytes(file.read_bytes()[:-3000])
    assert [report.reason for report in _refused(tmp_path / "dicom")] == [Reason.TRUNCATED]


def _refused(folder):
    write(ct("GOOD-1"), folder / "good.dcm")
    return [report for report in ingest_folder(folder, KEY).report.files if report.path == "x.dcm"]
