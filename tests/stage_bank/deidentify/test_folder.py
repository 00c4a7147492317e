"""`bat-client bank deidentify` as a real process on planted folders: nothing planted comes out, everything is named."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import numpy as np
import pydicom
import pytest
from pydicom.data import get_testdata_file
from pydicom.dataset import Dataset

from stage_bank.ingest import Reason
from tests.stage_bank.deidentify.test_deidentify import holds, planted
from tests.stage_bank.dicom_files import ct, picture, write

ROOT = Path(__file__).parents[3]


def run(source: Path, target: Path, *more: str, report: Path | None = None) -> subprocess.CompletedProcess[str]:
    site = target.parent
    command = [
        sys.executable, "-c", "import sys; from client.cli import main; sys.exit(main())", "bank", "deidentify",
        str(source), str(target), "--report", str(report or site / "report.json"), "--key-file", str(site / "key"),
        *more,
    ]  # fmt: skip
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)


def report_of(folder: Path) -> dict[str, dict[str, object]]:
    return {file["path"]: file for file in json.loads((folder / "report.json").read_text())["files"]}


def outputs(target: Path) -> list[pydicom.FileDataset]:
    return [pydicom.dcmread(path) for path in sorted(target.rglob("*.dcm"))]


def digests(folder: Path) -> dict[str, tuple[str, int]]:
    return {
        path.name: (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_nothing_planted_comes_out_of_a_folder_and_the_input_is_not_touched(tmp_path):
    source = tmp_path / "in"
    dataset, secrets = planted()
    write(dataset, source / "Planted_Patient" / "Planted.dcm")
    directory = pydicom.dcmread(get_testdata_file("DICOMDIR"))
    directory.save_as(source / "DICOMDIR")
    pdf = ct(SOPClassUID="1.2.840.10008.5.1.4.1.1.104.1", EncapsulatedDocument=b"%PDF Planted Patient!")
    del pdf.PixelData
    write(pdf, source / "letter.dcm")
    names = {str(record.PatientName) for record in directory.DirectoryRecordSequence if "PatientName" in record}
    before = digests(source)
    result = run(source, tmp_path / "out")
    assert result.returncode == 3, result.stderr
    assert digests(source) == before
    files = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert len(files) == 1
    for path in files:
        data = path.read_bytes() + str(path.relative_to(tmp_path)).encode()
        assert [secret for secret in (*secrets, *names, "Planted") if holds(data, secret)] == []
    entries = report_of(tmp_path)
    assert entries["DICOMDIR"]["reason"] == Reason.INDEX.value
    assert entries["letter.dcm"]["reason"] == Reason.DOCUMENT.value
    taken = entries["Planted_Patient/Planted.dcm"]
    assert taken["status"] == "written"
    assert taken["strings_checked"] > 20
    assert "Planted" not in result.stdout + result.stderr
    np.testing.assert_array_equal(outputs(tmp_path / "out")[0].pixel_array, picture())


def test_every_file_is_named_with_its_reason_and_one_bad_one_stops_nothing(tmp_path):
    source = tmp_path / "in"
    write(ct(), source / "good.dcm")
    (source / "zero.dcm").touch()
    (source / "text.txt").write_text("no DICOM")
    (source / "loop").symlink_to(source, target_is_directory=True)
    (source / "broken").symlink_to(source / "nowhere")
    data = (source / "good.dcm").read_bytes()
    cut = write(ct("C-3"), source / "short.dcm").read_bytes()
    (source / "short.dcm").write_bytes(cut[: len(cut) // 2])
    (source / "again.dcm").write_bytes(data)
    hostile = ct("B-1", NumberOfFrames=1)
    hostile.add_new("NumberOfFrames", "LO", "1A")
    write(hostile, source / "hostile.dcm")
    result = run(source, tmp_path / "out")
    assert result.returncode == 3, result.stderr
    reasons = {path: entry.get("reason") for path, entry in report_of(tmp_path).items()}
    assert reasons == {
        "good.dcm": Reason.SAME_OBJECT.value,
        "again.dcm": None,
        "zero.dcm": Reason.EMPTY_FILE.value,
        "text.txt": Reason.NOT_DICOM.value,
        "loop": Reason.LOOP.value,
        "broken": Reason.BROKEN_LINK.value,
        "short.dcm": Reason.TRUNCATED.value,
        "hostile.dcm": Reason.DAMAGED.value,
    }
    assert len(outputs(tmp_path / "out")) == 1


def test_references_intervals_and_pseudonyms_hold_across_files_and_runs(tmp_path):
    source = tmp_path / "in"
    image = ct(StudyDate="20200228", StudyTime="235900", ContentDate="20200301", ContentTime="000100")
    reference = Dataset()
    reference.ReferencedSOPClassUID, reference.ReferencedSOPInstanceUID = image.SOPClassUID, image.SOPInstanceUID
    other = ct(pixels=picture(8), StudyDate="20200305", StudyTime="235900", ReferencedImageSequence=[reference])
    stranger = ct("B-2", pixels=picture(9), StudyDate="20200305", StudyTime="235900")
    for name, dataset in (("1", image), ("2", other), ("3", stranger)):
        write(dataset, source / f"{name}.dcm")
    assert run(source, tmp_path / "out").returncode == 0
    found = {
        entry["path"]: pydicom.dcmread(tmp_path / "out" / entry["written"]) for entry in report_of(tmp_path).values()
    }
    first, second, third = (found[f"{name}.dcm"] for name in "123")
    assert second.ReferencedImageSequence[0].ReferencedSOPInstanceUID == first.SOPInstanceUID != image.SOPInstanceUID
    assert first.PatientID == second.PatientID != third.PatientID

    def moment(dataset: Dataset, part: str) -> datetime:
        return datetime.strptime(dataset[f"{part}Date"].value + dataset[f"{part}Time"].value, "%Y%m%d%H%M%S.%f")

    assert (moment(first, "Content") - moment(first, "Study")).total_seconds() == 2 * 86400 - 86400 + 120
    assert (moment(second, "Study") - moment(first, "Study")).days == 6
    assert moment(second, "Study") != moment(third, "Study")
    assert first.LongitudinalTemporalInformationModified == "MODIFIED"
    assert {"113100", "113107"} <= {code.CodeValue for code in first.DeidentificationMethodCodeSequence}
    assert run(source, tmp_path / "out2").returncode == 0
    again = {str(dataset.SOPInstanceUID) for dataset in outputs(tmp_path / "out2")}
    assert again == {str(dataset.SOPInstanceUID) for dataset in outputs(tmp_path / "out")}


def test_safe_harbor_has_no_dates_groups_the_oldest_and_draws_its_uids(tmp_path):
    source = tmp_path / "in"
    dates = {"StudyDate": "20200228", "AcquisitionDateTime": "20200228101112", "InstanceCreationTime": "101112"}
    write(ct("A-1", PatientAge="095Y", PatientSex="F", **dates), source / "1.dcm")
    write(ct("B-2", pixels=picture(8), PatientAge="089Y", PatientBirthDate="19310102"), source / "2.dcm")
    for target in ("keyed", "random", "again"):
        profile = "modified-dates" if target == "keyed" else "safe-harbor"
        assert run(source, tmp_path / target, "--profile", profile).returncode == 0
    keyed, random, again = (outputs(tmp_path / target) for target in ("keyed", "random", "again"))
    for dataset in random:
        dated = [e.keyword for e in dataset.iterall() if e.VR in ("DA", "TM", "DT") and e.value]
        assert dated == []
        assert dataset.LongitudinalTemporalInformationModified == "REMOVED"
        codes = {code.CodeValue for code in dataset.DeidentificationMethodCodeSequence}
        assert "113107" not in codes
        assert "113108" in codes
    assert {dataset.PatientAge for dataset in random} == {"090Y", "089Y"}
    uids = [{str(dataset.SOPInstanceUID) for dataset in group} for group in (keyed, random, again)]
    assert uids[1] == uids[2]
    assert not uids[0] & uids[1]
    patients = [{dataset.PatientID for dataset in group} for group in (keyed, random)]
    assert not patients[0] & patients[1]
    assert (tmp_path / "key.uids").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("inside", ["in/out", "in", "."])
def test_an_output_inside_or_around_the_input_is_refused(tmp_path, inside):
    write(ct(), tmp_path / "site" / "in" / "1.dcm")
    before = digests(tmp_path)
    result = run(tmp_path / "site" / "in", tmp_path / "site" / inside, report=tmp_path / "report.json")
    assert result.returncode == 1
    assert "inside the other" in result.stderr
    assert digests(tmp_path) == before


def test_an_output_that_is_not_empty_and_a_missing_input_are_refused(tmp_path):
    write(ct(), tmp_path / "in" / "1.dcm")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "x").touch()
    assert "not an empty folder" in run(tmp_path / "in", tmp_path / "out").stderr
    assert "not a folder" in run(tmp_path / "nowhere", tmp_path / "out2").stderr
    (tmp_path / "bare").mkdir()
    assert "empty" in run(tmp_path / "bare", tmp_path / "out3").stderr


def test_report_and_key_stay_out_of_both_folders_and_the_key_is_private(tmp_path):
    write(ct(), tmp_path / "in" / "1.dcm")
    assert run(tmp_path / "in", tmp_path / "out", report=tmp_path / "in" / "r.json").returncode == 1
    assert run(tmp_path / "in", tmp_path / "out", report=tmp_path / "out" / "r.json").returncode == 1
    assert run(tmp_path / "in", tmp_path / "out").returncode == 0
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
    os.chmod(tmp_path / "key", 0o644)
    result = run(tmp_path / "in", tmp_path / "out2")
    assert result.returncode == 1
    assert "readable by others" in result.stderr


def test_output_names_say_nothing_and_files_are_private(tmp_path):
    write(ct("Muster"), tmp_path / "in" / "Muster^Max" / "Kopf.dcm")
    assert run(tmp_path / "in", tmp_path / "out").returncode == 0
    paths = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert len(paths) == 1
    relative = paths[0].relative_to(tmp_path / "out").as_posix()
    assert set(relative) <= set("0123456789abcdef./cm")
    assert paths[0].stat().st_mode & 0o077 == 0
