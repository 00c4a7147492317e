import base64
import gzip
import importlib.util
import io
import zlib
from pathlib import Path

import numpy as np
import pydicom
import pytest
from pydicom.data import get_testdata_file
from pydicom.dataelem import DataElement
from pydicom.dataset import Dataset, FileDataset
from pydicom.encaps import encapsulate, generate_frames
from pydicom.sequence import Sequence
from pydicom.uid import PYDICOM_IMPLEMENTATION_UID, DeflatedExplicitVRLittleEndian

from stage_bank.deidentify import FaceCheck, Options, TextCheck, deidentify, remap_uid
from stage_bank.deidentify.allowlists import vocabularies
from stage_bank.deidentify.conformance import rows
from stage_bank.dicom.read import Refused, read_dataset
from stage_bank.ingest import Reason, ingest_folder
from tests.stage_bank.dicom_files import KEY, ct, picture, write

TEXTS = [
    "PatientName", "PatientAddress", "OtherPatientNames", "ReferringPhysicianName", "InstitutionName",
    "OperatorsName", "StationName", "StudyDescription", "SeriesDescription", "ProtocolName", "ImageComments",
    "PatientComments", "AccessionNumber", "StudyID", "DeviceSerialNumber", "WindowCenterWidthExplanation",
    "RequestedProcedureDescription", "SoftwareVersions", "IssuerOfPatientID",
]  # fmt: skip
"""Attributes that hold text."""


def saved(dataset: Dataset) -> bytes:
    """The bytes a de-identified data set has on disk."""
    stream = io.BytesIO()
    dataset.save_as(stream, enforce_file_format=True)
    return stream.getvalue()


def forms(secret: str) -> list[bytes]:
    """How a string may stand in bytes: raw, both UTF-16 orders, and base64 at its three alignments."""
    raw = secret.encode()
    shifted = [base64.b64encode(b"\0" * shift + raw)[(0, 4, 4)[shift] : -4] for shift in range(3)]
    return [raw, raw.upper(), secret.encode("utf-16-le"), secret.encode("utf-16-be"), *shifted]


def holds(data: bytes, secret: str) -> bool:
    """Whether a planted string is in the bytes, compressed or not."""
    candidates = [data]
    for unpack in (zlib.decompress, gzip.decompress, lambda d: zlib.decompress(d[132:], -15)):
        try:
            candidates.append(unpack(data))
        except (zlib.error, OSError, EOFError):
            continue
    return any(form in candidate for candidate in candidates for form in forms(secret))


def planted() -> tuple[FileDataset, list[str]]:
    """One CT in which every place known to leak holds a string of its own."""
    secrets: list[str] = []

    def plant(tail: str = "") -> str:
        secrets.append(f"Planted{len(secrets):03d}{tail}")
        return secrets[-1]

    dataset = ct("MRN" + plant())
    for keyword in TEXTS:
        setattr(dataset, keyword, plant())
    dataset.PatientBirthDate, dataset.StudyDate, dataset.ContentDate = "19010203", "20220405", "20220406"
    secrets += ["19010203", "20220405", "20220406"]
    # Private tags of three representations (deid#6).
    block = dataset.private_block(0x0029, plant("owner")[:60], create=True)
    block.add_new(1, "LO", plant())
    block.add_new(2, "UN", plant().encode())
    inner = Dataset()
    inner.PatientName = plant()
    block.add_new(3, "SQ", Sequence([inner]))
    # A name two sequences deep (fo-dicom#1202), under an allowed sequence too.
    deep, deeper = Dataset(), Dataset()
    deeper.ReferringPhysicianName = plant()
    deep.RequestedProcedureCodeSequence = Sequence([deeper])
    deep.CodeMeaning = plant()
    dataset.RequestAttributesSequence = Sequence([deep])
    group = Dataset()
    group.PixelMeasuresSequence = Sequence([deeper])
    group.FrameAnatomySequence = Sequence([deeper])
    dataset.SharedFunctionalGroupsSequence = Sequence([group])
    # Text hidden in allowed attributes of a wrong kind.
    dataset.add_new("RescaleType", "LO", plant())
    dataset.add_new("SpacingBetweenSlices", "LO", plant())
    dataset.add_new("ImageOrientationPatient", "LO", [plant(), plant()])
    dataset.FrameOfReferenceUID = "1.2.3.777." + "4711"
    secrets.append("1.2.3.777.4711")
    # Overlay, its label, and a curve.
    dataset.add_new(0x60003000, "OW", plant().encode().ljust(512, b"\0"))
    dataset.add_new(0x60001500, "LO", plant())
    dataset.add_new(0x50003000, "OW", plant("x").encode())
    # After the pixels, in the preamble and in the meta group (fo-dicom#879).
    dataset.add_new(0xFFFCFFFC, "OB", plant("x").encode())
    dataset.preamble = plant().encode().ljust(128, b"\0")
    dataset.file_meta.SourceApplicationEntityTitle = plant()
    dataset.file_meta.PrivateInformationCreatorUID = "1.2.3.888"
    dataset.file_meta.PrivateInformation = plant("x").encode()
    dataset.EncapsulatedDocument = b"%PDF " + plant("x").encode()
    secrets.append(str(dataset.SOPInstanceUID))
    secrets.append(str(dataset.StudyInstanceUID))
    return dataset, secrets


def test_the_search_finds_what_is_planted():
    dataset, secrets = planted()
    data = saved(dataset)
    assert len(secrets) > 40
    assert [secret for secret in secrets if not holds(data, secret)] == []
    assert holds(base64.b64encode(b"x" + secrets[0].encode() + b"yzzz"), secrets[0])
    assert holds(zlib.compress(secrets[0].encode()), secrets[0])


def test_no_planted_string_is_left_anywhere():
    dataset, secrets = planted()
    data = saved(deidentify(dataset, KEY))
    assert [secret for secret in secrets if holds(data, secret)] == []
    assert "Planted" not in data.decode("latin-1")


def test_no_planted_string_gets_into_the_pictures(tmp_path):
    dataset, secrets = planted()
    write(dataset, tmp_path / "Planted_in_the_file_name.dcm")
    result = ingest_folder(tmp_path, KEY)
    data = repr(result.images).encode() + b"".join(image.pixels.tobytes() for image in result.images)
    assert len(result.images) == 1
    assert [secret for secret in secrets if holds(data, secret)] == []
    assert not holds(repr(result).replace("Planted_in_the_file_name", "").encode(), "Planted")


def test_pixels_are_unchanged():
    dataset = ct(pixels=picture(5))
    np.testing.assert_array_equal(deidentify(dataset, KEY).pixel_array, picture(5))


def test_unused_bits_which_may_hold_an_overlay_are_cleared():
    drawn = picture(5) | np.uint16(0x8000) * (np.eye(64, dtype=np.uint16))
    clean = deidentify(ct(pixels=drawn), KEY)
    np.testing.assert_array_equal(np.frombuffer(clean.PixelData, "<u2").reshape(64, 64), picture(5))


def test_bytes_behind_the_pixels_and_comments_in_a_compressed_frame_are_dropped():
    native = ct()
    native["PixelData"].value += b"PlantedTail!"
    jpeg = pydicom.dcmread(get_testdata_file("SC_rgb_jpeg_dcmtk.dcm"))
    frame = next(generate_frames(jpeg.PixelData))
    comment = b"\xff\xfe" + (2 + 12).to_bytes(2, "big") + b"PlantedText!"
    jpeg.PixelData = encapsulate([frame[:2] + comment + frame[2:] + b"PlantedTail!"])
    for dataset in (native, jpeg):
        assert b"Planted" in dataset.PixelData
        assert b"Planted" not in saved(deidentify(dataset, KEY, options=Options(text=TextCheck.NONE)))


def test_the_input_stays_as_it_is():
    dataset, _ = planted()
    before = saved(dataset)
    deidentify(dataset, KEY)
    assert saved(dataset) == before


def test_preamble_meta_and_marks():
    clean = pydicom.dcmread(io.BytesIO(saved(deidentify(planted()[0], KEY))))
    assert clean.preamble == b"\0" * 128
    assert {element.keyword for element in clean.file_meta} <= {
        "FileMetaInformationGroupLength", "FileMetaInformationVersion", "MediaStorageSOPClassUID",
        "MediaStorageSOPInstanceUID", "TransferSyntaxUID", "ImplementationClassUID", "ImplementationVersionName",
    }  # fmt: skip
    assert clean.PatientIdentityRemoved == "YES"
    assert clean.DeidentificationMethodCodeSequence[0].CodeValue == "113100"
    assert clean.LongitudinalTemporalInformationModified == "MODIFIED"
    assert not [
        element for element in clean.iterall() if element.tag.is_private or element.tag.group >> 8 in (0x50, 0x60)
    ]
    assert clean.PatientName == ""


def test_references_between_objects_still_match():
    image, other = ct(), ct(pixels=picture(8))
    reference = Dataset()
    reference.ReferencedSOPClassUID = image.SOPClassUID
    reference.ReferencedSOPInstanceUID = image.SOPInstanceUID
    reference.PurposeOfReferenceCodeSequence = Sequence([Dataset()])
    other.ReferencedImageSequence = Sequence([reference])
    clean_image, clean_other = deidentify(image, KEY), deidentify(other, KEY)
    copied = clean_other.ReferencedImageSequence[0]
    assert copied.ReferencedSOPInstanceUID == clean_image.SOPInstanceUID != image.SOPInstanceUID
    assert copied.ReferencedSOPClassUID == image.SOPClassUID
    assert "PurposeOfReferenceCodeSequence" not in copied
    assert clean_image.file_meta.MediaStorageSOPInstanceUID == clean_image.SOPInstanceUID


def test_a_segmentation_follows_the_images_it_refers_to():
    source = pydicom.dcmread(get_testdata_file("liver_1frame.dcm"))
    clean = deidentify(source, KEY)
    series, clean_series = source.ReferencedSeriesSequence[0], clean.ReferencedSeriesSequence[0]
    assert clean_series.SeriesInstanceUID == remap_uid(series.SeriesInstanceUID, KEY)
    for before, after in zip(series.ReferencedInstanceSequence, clean_series.ReferencedInstanceSequence, strict=True):
        assert after.ReferencedSOPInstanceUID == remap_uid(before.ReferencedSOPInstanceUID, KEY)
    np.testing.assert_array_equal(clean.pixel_array, source.pixel_array)
    assert clean.BitsAllocated == 1
    assert {segment.SegmentLabel for segment in clean.SegmentSequence} == {"REMOVED"}


def test_chosen_frames_take_their_own_geometry_along():
    source = pydicom.dcmread(get_testdata_file("eCT_Supplemental.dcm"))
    clean = deidentify(source, KEY, frames=[1], options=Options(text=TextCheck.NONE))
    np.testing.assert_array_equal(clean.pixel_array, source.pixel_array[1])
    own, theirs = clean.PerFrameFunctionalGroupsSequence, source.PerFrameFunctionalGroupsSequence
    assert len(own) == 1
    position = own[0].PlanePositionSequence[0].ImagePositionPatient
    assert list(position) == list(theirs[1].PlanePositionSequence[0].ImagePositionPatient)


def test_dates_of_nobody_in_particular_are_removed():
    clean = deidentify(ct("", StudyDate="20200228", StudyTime="101112", AcquisitionDateTime="20200228"), KEY)
    assert (clean.PatientID, clean.StudyDate, clean.StudyTime) == ("", "", "")
    assert "AcquisitionDateTime" not in clean
    assert clean.LongitudinalTemporalInformationModified == "REMOVED"
    assert "113107" not in [entry.CodeValue for entry in clean.DeidentificationMethodCodeSequence]


def test_structures_keep_their_contours_and_lose_their_names():
    source = read_dataset(Path(get_testdata_file("rtstruct.dcm")))
    clean = deidentify(source, KEY)
    assert {roi.ROIName for roi in clean.StructureSetROISequence} == {"REMOVED"}
    pairs = zip(source.ROIContourSequence, clean.ROIContourSequence, strict=True)
    compared = 0
    for before, after in pairs:
        for old, new in zip(before.get("ContourSequence", []), after.get("ContourSequence", []), strict=True):
            np.testing.assert_allclose([float(v) for v in new.ContourData], [float(v) for v in old.ContourData], 1e-7)
            compared += 1
    assert compared > 0
    frame = source.StructureSetROISequence[0].ReferencedFrameOfReferenceUID
    assert clean.StructureSetROISequence[0].ReferencedFrameOfReferenceUID == remap_uid(frame, KEY)


def test_doses_keep_their_values():
    source = read_dataset(Path(get_testdata_file("rtdose.dcm")))
    clean = deidentify(source, KEY)
    np.testing.assert_array_equal(clean.pixel_array, source.pixel_array)
    assert float(clean.DoseGridScaling) == pytest.approx(float(source.DoseGridScaling), rel=1e-7)
    assert len(clean.GridFrameOffsetVector) == source.NumberOfFrames
    assert len(deidentify(source, KEY, frames=[2, 3]).GridFrameOffsetVector) == 2


def test_loss_is_never_forgotten():
    lossy = pydicom.dcmread(get_testdata_file("SC_rgb_jpeg_dcmtk.dcm"))
    lossy.pop("LossyImageCompression", None)
    assert deidentify(lossy, KEY, options=Options(text=TextCheck.NONE)).LossyImageCompression == "01"
    assert "LossyImageCompression" not in deidentify(ct(), KEY)


def test_uids_depend_on_the_key_and_are_valid():
    assert remap_uid("1.2.3", KEY) == remap_uid("1.2.3 ", KEY) != remap_uid("1.2.3", b"another key of the site")
    assert all(pydicom.uid.UID(remap_uid(f"1.2.{number}", KEY)).is_valid for number in range(50))


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("reportsi.dcm", Reason.NO_CONTENT),
        ("rtplan.dcm", Reason.NO_TABLE),
        ("waveform_ecg.dcm", Reason.NO_TABLE),
        ("DICOMDIR", Reason.INDEX),
    ],
)
def test_what_no_list_covers_or_would_come_out_hollow_is_refused(name, reason):
    with pytest.raises(Refused) as refusal:
        deidentify(pydicom.dcmread(get_testdata_file(name)), KEY)
    assert refusal.value.reason is reason


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"SOPClassUID": None}, Reason.NO_TABLE),
        ({"SOPClassUID": "1.2.3.4711"}, Reason.NO_TABLE),
        ({"SOPClassUID": "1.2.840.10008.5.1.4.1.1.104.1"}, Reason.DOCUMENT),
        ({"SOPClassUID": "1.2.840.10008.5.1.4.1.1.77.1.1.1"}, Reason.VIDEO),
        ({"SOPInstanceUID": None}, Reason.DAMAGED),
        ({"PixelData": None}, Reason.NO_PIXELS),
    ],
)
def test_an_object_without_a_place_in_the_lists_is_refused(values, reason):
    with pytest.raises(Refused) as refusal:
        deidentify(ct(**values), KEY)
    assert refusal.value.reason is reason


REMOVED = {row.keyword for row in rows() if row.ours == "removed"}
EMPTY = {row.keyword for row in rows() if row.ours == "empty"}


def _allowed(element: DataElement) -> bool:
    """Whether table E.1-1 lets an element be there with its value."""
    graphics = element.tag.group >> 8 in (0x50, 0x60)
    named = element.keyword in REMOVED or (element.keyword in EMPTY and bool(element.value))
    return not (element.tag.is_private or graphics or named)


@pytest.mark.parametrize("package", ["pydicom", "data_store"])
def test_every_file_that_ships_with_pydicom_is_refused_or_loses_its_identifiers(package):
    """Names, IDs, texts, dates and UIDs of real headers: none is left, and nothing but refusals is raised."""
    checked = 0
    for path in sorted(Path(importlib.util.find_spec(package).origin).parent.rglob("*")):
        try:
            if not path.is_file():
                continue
            source = read_dataset(path)
            clean = deidentify(source, KEY, options=Options(text=TextCheck.NONE, faces=FaceCheck.KEEP))
        except Refused:
            continue
        data = saved(clean)
        header = data[: len(data) - len(clean.get("PixelData", b""))].replace(PYDICOM_IMPLEMENTATION_UID.encode(), b"")
        secrets = {
            str(value)
            for element in source.iterall()
            if element.VR in ("PN", "LO", "SH", "DA", "UI", "LT", "ST", "UT", "UN")
            for value in (element.value if element.VM > 1 else [element.value])
            if element.keyword not in ("CodeMeaning", "CodeValue")
        }
        secrets = {text for text in secrets if len(text) >= 6 and not text.startswith("1.2.840.10008.")}
        secrets -= {"Basic Application Confidentiality Profile", *vocabularies()}
        leaked = [text for text in secrets if text.encode("utf-8", "surrogateescape") in header]
        assert not leaked, (path.name, leaked)
        wrong = [element.tag for element in clean.iterall() if not _allowed(element)]
        assert not wrong, (path.name, wrong)
        checked += 1
    assert checked > {"pydicom": 95, "data_store": 40}[package]


def test_a_deflated_file_is_searched_decompressed():
    dataset, secrets = planted()
    dataset.file_meta.TransferSyntaxUID = DeflatedExplicitVRLittleEndian
    source = pydicom.dcmread(io.BytesIO(saved(dataset)))
    data = saved(deidentify(source, KEY))
    assert [secret for secret in secrets if holds(data, secret)] == []
