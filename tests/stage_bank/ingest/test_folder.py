import os
import struct
import time
import tracemalloc
import zlib
from pathlib import Path

import numpy as np
import pydicom
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydicom.data import get_testdata_file
from pydicom.datadict import tag_for_keyword
from pydicom.dataelem import DataElement
from pydicom.uid import MPEG4HP41, DeflatedExplicitVRLittleEndian, SecondaryCaptureImageStorage

from common.errors import DataError
from stage_bank.deidentify.text import Tesseract
from stage_bank.ingest import IngestResult, Reason, Status, ingest_folder
from tests.stage_bank.dicom_files import KEY, ct, picture, write

SEARCHED = Reason.TAKEN if Tesseract.find() else Reason.NO_TEXT_SEARCH


def ingest(folder: Path) -> IngestResult:
    return ingest_folder(folder, KEY)


def reasons(folder: Path) -> dict[str, Reason]:
    """Reasons of all files but `good.dcm`, which is there so that the folder is usable."""
    write(ct("GOOD-1", picture(99)), folder / "good.dcm")
    found = {file.path: file.reason for file in ingest(folder).report.files}
    assert found.pop("good.dcm") is Reason.TAKEN
    return found


@pytest.mark.parametrize("make", [lambda p: p / "absent", lambda p: p / "file"])
def test_a_folder_that_is_none_is_refused_with_a_remedy(tmp_path, make):
    (tmp_path / "file").write_text("x")
    with pytest.raises(DataError) as caught:
        ingest(make(tmp_path))
    assert caught.value.remedy


def test_an_empty_folder_is_refused(tmp_path):
    (tmp_path / "deeper" / "still").mkdir(parents=True)
    with pytest.raises(DataError, match="empty"):
        ingest(tmp_path)


def test_a_folder_without_a_usable_image_is_refused_with_an_example(tmp_path):
    (tmp_path / "note.txt").write_text("not an image")
    with pytest.raises(DataError, match=r"no usable image among 1 files .*note\.txt: not DICOM"):
        ingest(tmp_path)


def test_every_left_out_file_is_named_with_its_reason_and_the_rest_is_taken(tmp_path):
    whole = write(ct(), tmp_path / "p" / "whole").read_bytes()
    (tmp_path / "note.txt").write_text("hello")
    (tmp_path / "zero.dcm").touch()
    (tmp_path / "short.dcm").write_bytes(whole[:-500])
    (tmp_path / "shorter.dcm").write_bytes(whole[:140])
    (tmp_path / "noise.dcm").write_bytes(os.urandom(4000))
    (tmp_path / "link").symlink_to(tmp_path / "gone")
    (tmp_path / "deep" / "deeper").mkdir(parents=True)
    (tmp_path / "deep" / "deeper" / "loop").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    write(ct(PixelData=None), tmp_path / "header only")
    write(ct(Modality="SR", PixelData=None), tmp_path / "report")
    found = reasons(tmp_path)
    assert found.pop("shorter.dcm") in (Reason.DAMAGED, Reason.TRUNCATED)
    assert found == {
        "p/whole": Reason.TAKEN,
        "note.txt": Reason.NOT_DICOM,
        "zero.dcm": Reason.EMPTY_FILE,
        "short.dcm": Reason.TRUNCATED,
        "noise.dcm": Reason.NOT_DICOM,
        "link": Reason.BROKEN_LINK,
        "deep/deeper/loop": Reason.LOOP,
        "pipe": Reason.NOT_REGULAR,
        "header only": Reason.NO_PIXELS,
        "report": Reason.NOT_AN_IMAGE,
    }


def test_links_inside_are_followed_and_links_outside_are_not(tmp_path):
    outside = write(ct("B-2"), tmp_path / "outside.dcm")
    inside = tmp_path / "in"
    write(ct("A-1"), inside / "real" / "a.dcm")
    (inside / "leaving.dcm").symlink_to(outside)
    (inside / "way").symlink_to(inside / "real")
    found = {file.path: file.reason for file in ingest(inside).report.files}
    assert found == {"leaving.dcm": Reason.OUTSIDE, "real/a.dcm": Reason.TAKEN, "way": Reason.LOOP}


def test_an_unreadable_file_is_named(tmp_path, monkeypatch):
    closed, read = write(ct(), tmp_path / "closed.dcm"), Path.read_bytes

    def denied(path: Path) -> bytes:
        if path == closed:
            raise PermissionError(13, "Permission denied")
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", denied)  # root, who may run the tests, can read every file
    assert reasons(tmp_path) == {"closed.dcm": Reason.UNREADABLE}


def test_video_is_refused(tmp_path):
    film = ct()
    film.file_meta.TransferSyntaxUID = MPEG4HP41
    film.PixelData = pydicom.encaps.encapsulate([b"\0\0\0\x18ftyp" * 20])
    film["PixelData"].VR = "OB"
    write(film, tmp_path / "film.dcm")
    assert reasons(tmp_path) == {"film.dcm": Reason.VIDEO}


@pytest.mark.parametrize("modality", ["US", "SC", "OT", "XA", "ES", "RF"])
@pytest.mark.parametrize("declared", [None, "YES", "NO"])
def test_modalities_with_text_in_the_pixels_need_a_search_whatever_they_declare(tmp_path, modality, declared):
    values = {"BurnedInAnnotation": declared} if declared else {}
    write(ct(Modality=modality, **values), tmp_path / "x.dcm")
    assert reasons(tmp_path) == {"x.dcm": SEARCHED}


def test_a_declared_burned_in_ct_and_a_secondary_capture_of_a_ct_are_searched(tmp_path):
    write(ct(pixels=picture(1), BurnedInAnnotation="YES"), tmp_path / "marked.dcm")
    write(ct(pixels=picture(2), SOPClassUID=SecondaryCaptureImageStorage), tmp_path / "screen.dcm")
    assert reasons(tmp_path) == {"marked.dcm": SEARCHED, "screen.dcm": SEARCHED}


def test_an_unknown_modality_is_refused(tmp_path):
    write(ct(Modality="XYZ"), tmp_path / "strange.dcm")
    assert reasons(tmp_path) == {"strange.dcm": Reason.NO_MODALITY}


@pytest.mark.parametrize(("size", "expected"), [(47, Reason.TOO_SMALL), (48, Reason.TAKEN)])
def test_the_smallest_image(tmp_path, size, expected):
    write(ct(pixels=picture(size=size)), tmp_path / "x.dcm")
    assert reasons(tmp_path) == {"x.dcm": expected}


def test_an_image_without_contrast_is_refused(tmp_path):
    write(ct(pixels=np.full((64, 64), 7)), tmp_path / "flat.dcm")
    assert reasons(tmp_path) == {"flat.dcm": Reason.FLAT}


@pytest.mark.parametrize(
    ("patient", "expected"),
    [
        ("", Reason.NO_PATIENT),
        ("   ", Reason.NO_PATIENT),
        ("Anonymous", Reason.PLACEHOLDER),
        ("00000", Reason.PLACEHOLDER),
        ("---", Reason.PLACEHOLDER),
        ("123456", Reason.PLACEHOLDER),
        ("no id", Reason.PLACEHOLDER),
        ("A1\\B2", Reason.SEVERAL_PATIENTS),
    ],
)
def test_identities_that_are_none_are_quarantined(tmp_path, patient, expected):
    write(ct(patient), tmp_path / "x.dcm")
    write(ct("GOOD-1", picture(99)), tmp_path / "good.dcm")
    files = {file.path: file for file in ingest(tmp_path).report.files}
    assert (files["x.dcm"].status, files["x.dcm"].reason) == (Status.QUARANTINED, expected)


def test_a_file_without_patient_id_is_quarantined(tmp_path):
    write(ct(PatientID=None), tmp_path / "x.dcm")
    assert reasons(tmp_path) == {"x.dcm": Reason.NO_PATIENT}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"PatientName": "Doe^Peter"}, {"PatientName": "Roe^Paula"}),
        ({"PatientBirthDate": "19500101"}, {"PatientBirthDate": "19600101"}),
        ({"PatientSex": "F"}, {"PatientSex": "M"}),
    ],
)
def test_one_id_on_two_people_quarantines_all_of_it(tmp_path, first, second):
    write(ct("Z-1", picture(1), **first), tmp_path / "1.dcm")
    write(ct("Z-1", picture(2), **second), tmp_path / "2.dcm")
    assert reasons(tmp_path) == {"1.dcm": Reason.CONFLICT, "2.dcm": Reason.CONFLICT}


def test_one_study_under_two_ids_quarantines_both(tmp_path):
    for number in (1, 2):
        write(ct(f"Z-{number}", picture(number), StudyInstanceUID="1.2.3"), tmp_path / f"{number}.dcm")
    assert set(reasons(tmp_path).values()) == {Reason.SHARED_STUDY}


def test_spelling_and_blank_fields_are_no_conflict(tmp_path):
    write(ct("z-1", picture(1), PatientName="DOE^PETER", PatientSex="O"), tmp_path / "1.dcm")
    write(ct("Z-1 ", picture(2), PatientName="Doe^Peter^^", PatientSex="M"), tmp_path / "2.dcm")
    write(ct("Z-1", picture(3), PatientName=""), tmp_path / "3.dcm")
    result = ingest(tmp_path)
    assert (result.report.patients, result.report.images) == (1, 3)


def test_the_same_id_of_two_issuers_is_two_patients(tmp_path):
    write(ct("Z-1", picture(1), IssuerOfPatientID="North", PatientSex="M"), tmp_path / "1.dcm")
    write(ct("Z-1", picture(2), IssuerOfPatientID="South", PatientSex="F"), tmp_path / "2.dcm")
    assert ingest(tmp_path).report.patients == 2


def test_pseudonyms_are_stable_under_the_key_and_change_with_it(tmp_path):
    write(ct(), tmp_path / "x.dcm")
    first, again = ingest(tmp_path).images[0].patient, ingest(tmp_path).images[0].patient
    other = ingest_folder(tmp_path, b"another secret of the site")
    assert first == again != other.images[0].patient
    assert len(first) == 32
    assert "A-17" not in first


def test_duplicates_are_dropped_within_a_patient_but_never_across(tmp_path):
    for patient in ("P-1", "P-2"):
        for copy in range(2):
            write(ct(patient), tmp_path / patient / f"{copy}.dcm")
    result = ingest(tmp_path)
    assert (result.report.patients, result.report.images) == (2, 2)
    assert result.report.counts == {"taken": 2, "spare": 2, "refused": 0, "quarantined": 0}
    assert result.report.complete


def test_a_patient_with_many_images_gives_eight_and_the_others_are_spare(tmp_path):
    for number in range(12):
        write(ct("P-1", picture(number)), tmp_path / f"{number}.dcm")
    result = ingest(tmp_path)
    assert result.report.images == 8
    assert result.report.counts["spare"] == 4


def test_a_few_frames_of_a_multi_frame_file_are_taken(tmp_path):
    frames = np.stack([picture(seed) for seed in range(20)])
    write(ct(pixels=frames), tmp_path / "x.dcm")
    assert ingest(tmp_path).report.images == 3


def test_pictures_are_float32_between_0_and_1_and_of_bounded_size(tmp_path):
    write(ct(pixels=picture(size=700)[:, :600]), tmp_path / "x.dcm")
    image = ingest(tmp_path).images[0]
    assert (image.pixels.dtype, image.pixels.shape) == (np.float32, (512, 439))
    assert image.pixels.min() >= 0.0
    assert image.pixels.max() <= 1.0
    assert image.pixels.std() > 0.1


def test_monochrome1_is_the_inverse_of_monochrome2(tmp_path):
    write(ct("P-1"), tmp_path / "1.dcm")
    write(ct("P-2", PhotometricInterpretation="MONOCHROME1"), tmp_path / "2.dcm")
    first, second = ingest(tmp_path).images
    np.testing.assert_allclose(first.pixels, 1.0 - second.pixels, atol=1e-6)


def test_signed_rescaled_and_windowed_values_are_read(tmp_path):
    stored = (picture().astype(np.int32) - 1000).astype(np.int16)
    signed = ct(
        pixels=stored, PixelRepresentation=1, BitsStored=16, HighBit=15, RescaleSlope="2", RescaleIntercept="-100"
    )
    signed.PixelData = stored.tobytes()
    signed.WindowCenter, signed.WindowWidth = "1000", "2000"
    write(signed, tmp_path / "x.dcm")
    expected = np.clip((stored * 2.0 - 100.0) / 2000.0, 0.0, 1.0)
    np.testing.assert_allclose(ingest(tmp_path).images[0].pixels, expected, atol=1e-5)


def test_padding_does_not_set_the_range(tmp_path):
    pixels = picture() // 4 + 1000
    pixels[:20] = 0
    write(ct(pixels=pixels, PixelPaddingValue=0), tmp_path / "x.dcm")
    assert ingest(tmp_path).images[0].pixels[20:].std() > 0.15


@pytest.mark.skipif(Tesseract.find() is None, reason="no language model of tesseract is installed")
@pytest.mark.parametrize("name", ["SC_rgb_jpeg_dcmtk.dcm", "examples_ybr_color.dcm", "SC_rgb_rle_16bit_2frame.dcm"])
def test_colour_becomes_luminance(tmp_path, name):
    dataset = pydicom.dcmread(get_testdata_file(name))
    dataset.BurnedInAnnotation, dataset.PatientID = "NO", "P-1"
    write(dataset, tmp_path / "x.dcm")
    image = ingest(tmp_path).images[0]
    reference = dataset.pixel_array.astype(np.float64)
    reference = reference[0] if reference.ndim == 4 and len(reference) < 3 else reference
    reference = reference[len(reference) // 6] if reference.ndim == 4 else reference
    grey = reference @ [0.299, 0.587, 0.114]
    assert np.corrcoef(grey.ravel(), image.pixels.ravel())[0, 1] > 0.9  # the device's texts are blank


@pytest.mark.parametrize(
    "name",
    [
        "MR_small_implicit.dcm", "MR_small_bigendian.dcm", "MR_small_RLE.dcm", "MR_small_jp2klossless.dcm",
        "MR_small_jpeg_ls_lossless.dcm", "MR_small_expb.dcm", "MR_small_padded.dcm",
    ],
)  # fmt: skip
def test_every_transfer_syntax_gives_the_same_picture(tmp_path, name):
    for file in ("MR_small.dcm", name):
        (tmp_path / file).write_bytes(Path(get_testdata_file(file)).read_bytes())
    result = ingest(tmp_path)
    assert (result.report.images, result.report.counts["spare"]) == (1, 1)


def test_a_file_without_preamble_is_read(tmp_path):
    (tmp_path / "bare").write_bytes(write(ct(), tmp_path / "whole").read_bytes()[132:])
    (tmp_path / "whole").unlink()
    assert ingest(tmp_path).report.images == 1


def test_a_header_that_promises_a_huge_image_costs_nothing(tmp_path):
    write(ct(Rows=65000, Columns=65000), tmp_path / "bomb.dcm")
    started = time.monotonic()
    assert reasons(tmp_path) == {"bomb.dcm": Reason.TOO_LARGE}
    assert time.monotonic() - started < 2.0


def test_identifiers_hold_what_could_name_a_patient_and_nothing_from_the_standard(tmp_path):
    dataset = ct("MRN-4711", PatientName="Doe^Peter", AccessionNumber="ACC77", StudyDate="20040119")
    dataset.SeriesDescription = "knee of Peterson"
    dataset.private_block(0x0011, "ACME", create=True).add_new(1, "UN", b"\0\1secretary Jane Roe\0")
    dataset.preamble = b"scanned by Miller".ljust(128, b"\0")
    write(dataset, tmp_path / "x.dcm")
    found = ingest(tmp_path).identifiers
    expected = {"MRN-4711", "Doe^Peter", "Peter", "ACC77", "20040119", "Peterson", "knee of Peterson"}
    assert expected <= found
    assert {"secretary Jane Roe", "scanned by Miller", str(dataset.StudyInstanceUID)} <= found
    assert "1.2.840.10008.5.1.4.1.1.2" not in found


def test_the_report_carries_no_header_value(tmp_path):
    secret = "Zyxwvut^Secret"
    write(ct("", PatientName=secret), tmp_path / "1.dcm")
    write(ct("P-1", PatientName=secret, Modality="XYZ"), tmp_path / "2.dcm")
    write(ct("P-2", picture(3)), tmp_path / "3.dcm")
    report = ingest(tmp_path).report
    assert "Zyxw" not in str(report.to_json()) + "".join(report.lines())
    assert not report.complete
    assert len(report.lines()) == 3


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_no_damage_ends_the_ingest(tmp_path, data):
    """Cut or changed bytes make one file fail, never the others."""
    write(ct("P-1", picture(1)), tmp_path / "good.dcm")
    raw = bytearray(write(ct("P-2", picture(2)), tmp_path / "bad.dcm").read_bytes())
    for _ in range(data.draw(st.integers(1, 6))):
        raw[data.draw(st.integers(0, 900))] = data.draw(st.integers(0, 255))
    (tmp_path / "bad.dcm").write_bytes(raw[: data.draw(st.integers(1, len(raw)))])
    files = {file.path: file.reason for file in ingest(tmp_path).report.files}
    assert files.keys() == {"good.dcm", "bad.dcm"}
    assert files["good.dcm"] in (Reason.TAKEN, Reason.SHARED_STUDY)


@pytest.mark.parametrize(
    ("keyword", "representation", "value", "reason"),
    [
        ("Modality", "CS", ["CT", "MR"], Reason.NO_MODALITY),
        ("Modality", "SQ", [], Reason.DAMAGED),
        ("Rows", "US", [64, 64], Reason.DAMAGED),
        ("Columns", "LO", "abc", Reason.DAMAGED),
        ("NumberOfFrames", "IS", "2147483647", Reason.TOO_MANY_FRAMES),
        ("NumberOfFrames", "IS", ["1", "2"], Reason.DAMAGED),
    ],
)
def test_a_header_of_the_wrong_type_costs_its_own_file_only(tmp_path, keyword, representation, value, reason):
    dataset = ct("Z-1", picture(5))
    dataset[keyword] = DataElement(tag_for_keyword(keyword), representation, value)
    write(dataset, tmp_path / "odd.dcm")
    assert reasons(tmp_path) == {"odd.dcm": reason}


def test_a_deflated_bomb_is_refused_without_unpacking_it(tmp_path):
    dataset = ct("Z-1", picture(5))
    dataset.file_meta.TransferSyntaxUID = DeflatedExplicitVRLittleEndian
    dataset.save_as(tmp_path / "whole.dcm", enforce_file_format=True)  # with the length of its meta group
    whole = (tmp_path / "whole.dcm").read_bytes()
    head = 132 + 12 + int.from_bytes(whole[140:144], "little")
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    private = struct.pack("<HH2sHI", 0x7FE1, 0x1010, b"OB", 0, 520 << 20)
    packed = packer.compress(zlib.decompress(whole[head:], -zlib.MAX_WBITS) + private)
    zeros = bytes(1 << 20)
    packed += b"".join(packer.compress(zeros) for _ in range(520)) + packer.flush()
    (tmp_path / "bomb.dcm").write_bytes(whole[:head] + packed)
    assert (tmp_path / "bomb.dcm").stat().st_size < 1 << 20
    tracemalloc.start()
    found = reasons(tmp_path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found == {"whole.dcm": SEARCHED, "bomb.dcm": Reason.INFLATED}
    assert peak < 200 << 20
