import time
from collections import Counter

import pydicom
import pytest

from common.canonical import digest_file
from deploy.sample_sites import make
from stage_bank.images import SPLITS, public_images
from stage_bank.ingest import Reason, Status, ingest_folder

KEY = b"a key that three sites never share"


@pytest.fixture(scope="module")
def sites(tmp_path_factory):
    return make(tmp_path_factory.mktemp("hospitals"))


@pytest.fixture(scope="module")
def results(sites):
    started = time.monotonic()
    made = {name: ingest_folder(folder, KEY) for name, folder in sites.items()}
    assert time.monotonic() - started < 15.0
    return made


@pytest.mark.parametrize(("site", "modalities"), [("ct", {"CT"}), ("mr", {"MR"}), ("xray", {"CR", "NM"})])
def test_each_site_has_three_patients_of_its_own_modality(results, site, modalities):
    assert {image.modality for image in results[site].images} == modalities
    assert results[site].report.patients == 3


def test_no_patient_is_at_two_sites(results):
    owners = Counter(patient for result in results.values() for patient in {image.patient for image in result.images})
    assert set(owners.values()) == {1}


@pytest.mark.parametrize(
    ("site", "expected"),
    [
        ("ct", {Reason.NOT_DICOM, Reason.EMPTY_FILE, Reason.TRUNCATED, Reason.TOO_SMALL, Reason.INDEX}),
        ("mr", {Reason.NOT_DICOM, Reason.EMPTY_FILE, Reason.TRUNCATED, Reason.NO_PATIENT, Reason.NOT_AN_IMAGE}),
        ("xray", {Reason.NOT_DICOM, Reason.EMPTY_FILE, Reason.TRUNCATED, Reason.TOO_SMALL, Reason.NOT_AN_IMAGE}),
    ],
)
def test_the_folders_hold_what_must_be_refused(results, site, expected):
    left_out = {
        file.reason for file in results[site].report.files if file.status in (Status.REFUSED, Status.QUARANTINED)
    }
    assert expected <= left_out


def test_every_file_is_reported_once(sites, results):
    for site, folder in sites.items():
        on_disk = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
        assert [file.path for file in results[site].report.files] == on_disk


def test_no_public_image_and_no_subject_of_one_is_at_a_site(sites):
    public = {image.source_digest for split in SPLITS for image in public_images(split)}
    subjects = {image.source.split(":")[1] for split in SPLITS for image in public_images(split)}
    for folder in sites.values():
        for path in folder.rglob("*"):
            if not path.is_file():
                continue
            assert digest_file(path) not in public
            if path.suffix == ".dcm" and path.stat().st_size > 200:
                header = pydicom.dcmread(path, stop_before_pixels=True, force=True)
                assert str(header.get("PatientID")) not in subjects


def test_making_them_again_replaces_what_was_there(tmp_path):
    folder = make(tmp_path)["ct"]
    (folder / "old.dcm").write_text("left over")
    before = sorted(path.name for path in make(tmp_path)["ct"].rglob("*"))
    assert "old.dcm" not in before
