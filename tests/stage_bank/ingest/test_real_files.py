"""Every file of pydicom and pydicom-data, judged by pydicom's own decoder."""

from pathlib import Path

import data_store
import pydicom
import pytest
from pydicom.data import get_testdata_file

from stage_bank.deidentify.allowlists import allow_lists
from stage_bank.deidentify.text import Tesseract
from stage_bank.dicom.quiet import quiet
from stage_bank.dicom.read import Refused
from stage_bank.dicom.walk import Found, walk
from stage_bank.ingest import Reason, Status
from stage_bank.ingest.report import FileReport
from stage_bank.ingest.series import read_series
from stage_bank.ingest.site_map import SiteMap
from stage_bank.ingest.survey import survey
from tests.stage_bank.dicom_files import KEY

FOLDERS = [Path(get_testdata_file("CT_small.dcm") or "").parent, Path(data_store.__file__).parent / "data"]

POLICY = {
    Reason.TOO_SMALL: lambda header: min(header.Rows, header.Columns) < 48,
    Reason.NOT_AN_IMAGE: lambda header: header.Modality in ("SEG", "RTDOSE"),
    Reason.FLAT: lambda header: header.pixel_array.min() == header.pixel_array.max(),
    Reason.TEXT: lambda header: header.Modality in ("US", "OT", "NM", None),
    Reason.NO_TABLE: lambda header: header.SOPClassUID not in {uid for table in allow_lists() for uid in table.classes},
}
"""Why a file that pydicom decodes may be left out, and what must then be true of it."""


def outcome(found: Found) -> FileReport:
    site_map = SiteMap({("file", found.name): "somebody"})
    try:
        candidate = survey(found, site_map, set())
    except Refused as refusal:
        return FileReport(found.name, Status.REFUSED, refusal.reason)
    ((report, taken),) = read_series([candidate], [0], KEY, 8, set())
    assert bool(taken) == (report.status is Status.TAKEN)
    return report


def decodable(path: Path) -> pydicom.Dataset | None:
    try:
        dataset = pydicom.dcmread(path, force=True)
        _ = dataset.pixel_array
    except Exception:  # whatever it is, pydicom cannot
        return None
    return dataset


@pytest.mark.slow
@pytest.mark.skipif(Tesseract.find() is None, reason="no language model of tesseract is installed")
@pytest.mark.parametrize("folder", FOLDERS, ids=["pydicom", "pydicom-data"])
def test_every_decodable_file_is_ingested_or_left_out_by_policy_and_every_other_one_is_named(folder):
    taken = 0
    unexplained = {}
    with quiet():
        for found in walk(folder):
            report = outcome(found)
            reference = decodable(found.path)
            if report.status is Status.TAKEN:
                taken += 1
            elif reference is not None and not POLICY.get(report.reason, lambda _: False)(reference):
                unexplained[found.name] = report.reason.name
    assert not unexplained
    assert taken >= 30
