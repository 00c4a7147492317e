"""Whatever stands wherever: a needle in every attribute of the dictionary that can hold text never comes through."""

import io
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pydicom
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydicom.data import get_testdata_file
from pydicom.datadict import DicomDictionary
from pydicom.dataelem import DataElement
from pydicom.dataset import Dataset, FileDataset
from pydicom.sequence import Sequence
from pydicom.tag import Tag

from stage_bank.deidentify import FaceCheck, Options, TextCheck, deidentify
from stage_bank.deidentify.allowlists import allow_lists
from stage_bank.dicom.read import Refused, read_dataset
from tests.stage_bank.deidentify.test_deidentify import holds
from tests.stage_bank.dicom_files import KEY, ct

TEXT_LIKE = ("AE", "AS", "CS", "DA", "DS", "DT", "IS", "LO", "LT", "PN", "SH", "ST", "TM", "UC", "UI", "UN", "UR", "UT")
PIXELS = {
    "Rows", "Columns", "BitsAllocated", "BitsStored", "HighBit", "PixelRepresentation", "SamplesPerPixel",
    "PhotometricInterpretation", "NumberOfFrames", "SOPClassUID", "SpecificCharacterSet", "PixelData",
}  # fmt: skip
"""Attributes without which nothing is decoded: a needle there would only get the file refused."""
ENTRIES = [
    (tag, vr, keyword)
    for tag, (vr, _, _, _, keyword) in DicomDictionary.items()
    if (vr in TEXT_LIKE or vr == "SQ") and keyword and keyword not in PIXELS and tag >> 16 not in (0x0000, 0x0002)
]
LISTED = [
    entry for entry in ENTRIES if any(entry[0] in found.attributes for found in allow_lists())
]  # what is kept deserves most needles
NO_OCR = Options(text=TextCheck.NONE, faces=FaceCheck.KEEP)

NEEDLES = st.one_of(
    st.text("ABCDEFGHJKLMNPQRSTUVWXYZ", min_size=9, max_size=12),
    st.text("123456789", min_size=10, max_size=12),
    st.text("äöüßéÅØñ", min_size=6, max_size=9),
)


def fill(dataset: Dataset, entries: list[tuple[int, str, str]], needle: str, depth: int) -> None:
    for tag, vr, _ in entries:
        if vr == "SQ":
            item = Dataset()
            if depth:
                fill(item, LISTED + entries[:20], needle, depth - 1)
            dataset[tag] = DataElement(Tag(tag), "SQ", Sequence([item]))
        else:
            value = needle.encode() if vr == "UN" else f"1.2.{needle}" if vr == "UI" else needle
            dataset[tag] = DataElement(Tag(tag), "LO" if vr in ("IS", "DS") else vr, value, validation_mode=0)


def saved(dataset: Dataset) -> bytes:
    stream = io.BytesIO()
    dataset.save_as(stream, enforce_file_format=True)
    return stream.getvalue()


@st.composite
def planted(draw: st.DrawFn) -> tuple[FileDataset, str]:
    needle = draw(NEEDLES)
    dataset = ct(pixels=np.zeros((8, 8), np.uint16))
    chosen = draw(st.lists(st.sampled_from(ENTRIES), max_size=60, unique=True))
    fill(dataset, LISTED + chosen, needle, depth=draw(st.integers(0, 2)))
    block = dataset.private_block(0x0029, needle[:60], create=True)
    for number, vr in enumerate(("LO", "UN", "OB", "UT")):
        block.add_new(number, vr, needle.encode() if vr in ("UN", "OB") else needle)
    dataset.SOPClassUID = draw(st.sampled_from(sorted(uid for found in allow_lists() for uid in found.classes)))
    dataset.preamble = needle.encode().ljust(128, b"\0")[:128]
    dataset.file_meta.PrivateInformation = needle.encode()
    dataset.SpecificCharacterSet = "ISO_IR 192"
    return dataset, needle


@given(planted())
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_needle_comes_through(case):
    dataset, needle = case
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert holds(saved(dataset), needle)
        try:
            clean = deidentify(dataset, KEY, options=NO_OCR)
        except Refused:
            return
        data = saved(clean)
    assert not holds(data, needle)


NUMBERS = st.one_of(
    st.integers(-(10**12), 10**12), st.floats(), st.sampled_from(["", " 7 ", "1e400", "-0", "٣", "1\\2\\x", "nan"])
)
LEAVES = [entry for entry in LISTED if entry[1] != "SQ"]


@given(st.lists(st.tuples(st.sampled_from(LEAVES), st.lists(NUMBERS, min_size=1, max_size=4)), max_size=30))
@settings(max_examples=60, deadline=None)
def test_whatever_numbers_stand_in_a_header_the_result_can_be_written_and_read(values):
    dataset = ct(pixels=np.zeros((8, 8), np.uint16))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for (tag, _, _), numbers in values:
            dataset[tag] = DataElement(Tag(tag), "UC", [str(number) for number in numbers], validation_mode=0)
        dataset.SOPClassUID, dataset.Modality = "1.2.840.10008.5.1.4.1.1.2", "CT"
        try:
            clean = deidentify(dataset, KEY, options=NO_OCR)
        except Refused:
            return
        again = pydicom.dcmread(io.BytesIO(saved(clean)))
    assert {element.keyword for element in again} == {element.keyword for element in clean}


@given(st.lists(st.tuples(st.integers(0, 9000), st.integers(0, 255)), min_size=1, max_size=40))
@settings(max_examples=80, deadline=None)
def test_damaged_bytes_are_refused_or_come_out_sound(changes):
    data = bytearray(Path(get_testdata_file("MR_small.dcm")).read_bytes())
    for place, value in changes:
        data[place] = value
    with TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder, "x")
        path.write_bytes(data)
        try:
            saved(deidentify(read_dataset(path), KEY, options=NO_OCR))
        except Refused:
            return


@pytest.mark.parametrize(
    ("charset", "name"),
    [
        ("ISO_IR 192", "山田^太郎=Größe"),
        ("ISO_IR 100", "Größe^Jörg"),
        (["", "ISO 2022 IR 87"], "Yamada^Tarou=山田^太郎"),
        (["", "ISO 2022 IR 149"], "Hong^Gildong=洪^吉洞=홍^길동"),
        ("GB18030", "Wang^XiaoDong=王^小东"),
    ],
)
def test_names_in_any_character_set_are_gone(charset, name):
    dataset = ct(SpecificCharacterSet=charset, PatientName=name, PatientComments=name, StudyDescription=name)
    read = pydicom.dcmread(io.BytesIO(saved(dataset)))
    raw = read.PatientName.original_string if hasattr(read.PatientName, "original_string") else name.encode()
    assert raw in saved(dataset)
    data = saved(deidentify(read, KEY))
    parts = [part for part in name.replace("=", "^").split("^") if part]
    for part in parts:
        for encoding in ("utf-8", "utf-16-le", "gb18030", "iso2022_jp", "euc_kr", "latin-1"):
            try:
                assert part.encode(encoding) not in data
            except UnicodeEncodeError:
                continue
    assert raw not in data
