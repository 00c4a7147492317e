import pytest

from common.errors import ConfigurationError
from stage_bank.ingest import Reason, SiteMap, ingest_folder
from tests.stage_bank.dicom_files import KEY, ct, picture, write


def site_map(tmp_path, *rows: str) -> SiteMap:
    file = tmp_path / "map.csv"
    file.write_text("\n".join(["kind,value,unit", *rows]))
    return SiteMap.load(file)


def test_files_studies_and_patients_are_mapped_and_the_more_exact_entry_decides(tmp_path):
    folder = tmp_path / "dicom"
    write(ct("", picture(1), StudyInstanceUID="1.1"), folder / "a" / "1.dcm")
    write(ct("P-2", picture(2), StudyInstanceUID="1.2"), folder / "2.dcm")
    write(ct("P-3", picture(3), StudyInstanceUID="1.3"), folder / "3.dcm")
    write(ct("P-3", picture(4), StudyInstanceUID="1.4"), folder / "4.dcm")
    mapped = site_map(tmp_path, "file,a/1.dcm,X", "study,1.2,X", "patient,P-3,Y", "study,1.4,X")
    result = ingest_folder(folder, KEY, site_map=mapped)
    groups = sorted(
        sum(image.patient == patient for image in result.images) for patient in {i.patient for i in result.images}
    )
    assert groups == [1, 3]


def test_two_units_in_one_study_go_to_quarantine(tmp_path):
    folder = tmp_path / "dicom"
    write(ct("GOOD", picture(9)), folder / "good.dcm")
    for number in (1, 2):
        write(ct("P-1", picture(number), StudyInstanceUID="1.1"), folder / f"{number}.dcm")
    result = ingest_folder(folder, KEY, site_map=site_map(tmp_path, "file,1.dcm,X", "file,2.dcm,Y"))
    found = {file.path: file.reason for file in result.report.files}
    assert found == {"1.dcm": Reason.SHARED_STUDY, "2.dcm": Reason.SHARED_STUDY, "good.dcm": Reason.TAKEN}


def test_a_unit_never_meets_a_patient_of_the_same_name(tmp_path):
    folder = tmp_path / "dicom"
    write(ct("UNIT-7", picture(1)), folder / "1.dcm")
    write(ct("P-2", picture(2)), folder / "2.dcm")
    assert ingest_folder(folder, KEY, site_map=site_map(tmp_path, "patient,P-2,UNIT-7")).report.patients == 2


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a,b,c\n",
        "kind,value,unit\nroom,1,2\n",
        "kind,value,unit\nfile,,X\n",
        "kind,value,unit\nfile,a\n",
        "kind,value,unit\nfile,a,X\nfile,a,Y\n",
    ],
)
def test_a_map_that_cannot_be_meant_is_refused(tmp_path, text):
    (tmp_path / "map.csv").write_text(text)
    with pytest.raises(ConfigurationError):
        SiteMap.load(tmp_path / "map.csv")


def test_a_map_that_is_no_text_is_refused(tmp_path):
    (tmp_path / "map.csv").write_bytes(b"\xff\xfe\0\0")
    with pytest.raises(ConfigurationError):
        SiteMap.load(tmp_path / "map.csv")
