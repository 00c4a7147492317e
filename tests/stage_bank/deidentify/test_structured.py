import io

import pydicom
import pytest
from pydicom.data import get_testdata_file
from pydicom.dataset import Dataset, FileDataset

from stage_bank.deidentify import deidentify, remap_uid
from stage_bank.deidentify.structured import clean_codes, code
from stage_bank.dicom.read import Refused
from stage_bank.ingest import Reason
from tests.stage_bank.deidentify.test_deidentify import holds, saved
from tests.stage_bank.dicom_files import KEY, ct

SECRET = "Planted^Patient"


def item(kind: str, concept: Dataset, **values: object) -> Dataset:
    content = Dataset()
    content.RelationshipType = "CONTAINS"
    content.ValueType = kind
    content.ConceptNameCodeSequence = [concept]
    for keyword, value in values.items():
        setattr(content, keyword, value)
    return content


def measure(number: str, unit: Dataset) -> list[Dataset]:
    value = Dataset()
    value.NumericValue = number
    value.MeasurementUnitsCodeSequence = [unit]
    return [value]


def reference(image: Dataset) -> list[Dataset]:
    found = Dataset()
    found.ReferencedSOPClassUID = image.SOPClassUID
    found.ReferencedSOPInstanceUID = image.SOPInstanceUID
    return [found]


def report(*contents: Dataset) -> FileDataset:
    dataset = ct()
    for keyword in ("PixelData", "Rows", "Columns", "BitsAllocated", "BitsStored", "HighBit", "PixelRepresentation"):
        delattr(dataset, keyword)
    dataset.SOPClassUID = "1.2.840.10008.5.1.4.1.1.88.33"
    dataset.Modality = "SR"
    dataset.ValueType = "CONTAINER"
    dataset.ConceptNameCodeSequence = [code("126000", "DCM", SECRET)]
    dataset.ContentSequence = list(contents)
    return dataset


LENGTH = code("410668003", "SCT", "Length")
MM = code("mm", "UCUM", SECRET)
FINDING = code("121071", "DCM", "Finding")


def test_numbers_codes_and_references_stay_and_everything_said_about_people_goes():
    image = ct()
    unknown = code("4711", "99PLANTED", SECRET)
    dataset = report(
        item("NUM", LENGTH, MeasuredValueSequence=measure("12.5", MM)),
        item("CODE", FINDING, ConceptCodeSequence=[code("108369006", "SCT", SECRET)]),
        item("IMAGE", code("121112", "DCM", "Source of Measurement"), ReferencedSOPSequence=reference(image)),
        item("UIDREF", code("112040", "DCM", "Tracking Unique Identifier"), UID="1.2.3.4711.1"),
        item("TEXT", FINDING, TextValue=SECRET),
        item("PNAME", code("121008", "DCM", "Person Observer Name"), PersonName=SECRET),
        item("TEXT", code("121029", "DCM", "Subject Name"), TextValue=SECRET),
        item("DATE", code("121031", "DCM", "Subject Birth Date"), Date="19010203"),
        item(
            "NUM", code("121033", "DCM", "Subject Age"), MeasuredValueSequence=measure("97", code("a", "UCUM", "year"))
        ),
        item("CODE", unknown, ConceptCodeSequence=[FINDING]),
        item("CODE", FINDING, ConceptCodeSequence=[unknown]),
        item("CONTAINER", FINDING, ContentSequence=[item("TEXT", FINDING, TextValue=SECRET)]),
    )
    assert holds(saved(dataset), "Planted")
    clean = pydicom.dcmread(io.BytesIO(saved(deidentify(dataset, KEY))))
    assert not holds(saved(clean), "Planted")
    assert [content.ValueType for content in clean.ContentSequence] == ["NUM", "CODE", "IMAGE", "UIDREF"]
    number, finding, source, tracking = clean.ContentSequence
    assert number.MeasuredValueSequence[0].NumericValue == 12.5
    assert number.MeasuredValueSequence[0].MeasurementUnitsCodeSequence[0].CodeMeaning != SECRET
    assert finding.ConceptCodeSequence[0].CodeMeaning == "Tumor"
    assert source.ReferencedSOPSequence[0].ReferencedSOPInstanceUID == deidentify(image, KEY).SOPInstanceUID
    assert remap_uid("1.2.3.4711.1", KEY) == tracking.UID
    codes = [entry.CodeValue for entry in clean.DeidentificationMethodCodeSequence]
    assert "113104" in codes


def test_a_report_of_texts_alone_is_refused():
    for dataset in (
        report(item("TEXT", FINDING, TextValue=SECRET)),
        pydicom.dcmread(get_testdata_file("reportsi.dcm")),
        pydicom.dcmread(get_testdata_file("test-SR.dcm")),
    ):
        with pytest.raises(Refused) as refusal:
            deidentify(dataset, KEY)
        assert refusal.value.reason is Reason.NO_CONTENT


def test_a_tree_deeper_than_any_report_does_not_exhaust_the_stack():
    content = item("NUM", LENGTH, MeasuredValueSequence=measure("1", MM))
    for _ in range(200):
        content = item("CONTAINER", FINDING, ContentSequence=[content])
    with pytest.raises(Refused):
        deidentify(report(content), KEY)


def test_a_code_keeps_the_meaning_of_the_dictionary_and_retired_ones_are_translated():
    retired = clean_codes([code("T-D1100", "SRT", SECRET)])[0]
    assert (retired.CodeValue, retired.CodingSchemeDesignator) == ("69536005", "SCT")
    assert retired.CodeMeaning.startswith("Head")
    assert clean_codes([code("4711", "SCT", SECRET), code("121071", "99X", SECRET), Dataset()]) == []
