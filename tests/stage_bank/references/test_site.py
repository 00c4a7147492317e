"""A folder with everything in it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from client.cli import main
from stage_bank.ingest import Reason, SiteMap, Status
from stage_bank.ingest.folder import NoImages
from stage_bank.ingest.references import ingest_site
from stage_bank.ingest.store import ImageStore
from tests.client.hospital import Hospital
from tests.stage_bank.dicom_files import KEY, ct, picture, write
from tests.stage_bank.references.series import random_masks, real_series
from tests.stage_bank.references.test_nifti import blobs, image_of, save
from tests.stage_bank.references.test_segmentation import segmentation


def everything(folder: Path) -> Path:
    sources = real_series(folder / "a", PatientID="P-1")
    segmentation(sources, random_masks(4)).save_as(folder / "a/seg.dcm")
    write(ct("P-2", picture(3)), folder / "b.dcm")
    save(image_of(blobs(0)), np.eye(4), folder / "n/scan_ct.nii")
    save(blobs(0).astype(np.uint8), np.eye(4), folder / "n/scan_ct_mask.nii")
    (folder / "note.txt").write_text("x")
    (folder.parent / "labels.csv").write_text("kind,value,label\nfile,b.dcm,nodule\n")
    (folder.parent / "map.csv").write_text("kind,value,unit\nfile,n/scan_ct.nii,P-1 of the map\n")
    return folder


def test_all_sources_join_in_one_report(tmp_path: Path) -> None:
    folder = everything(tmp_path / "share")
    mapped = SiteMap.load(tmp_path / "map.csv")
    result = ingest_site(folder, KEY, site_map=mapped, labels=[tmp_path / "labels.csv"], body_part="CHEST")
    assert {file.path: (file.status, file.reason) for file in result.report.files} == {
        **{f"a/{number}.dcm": (Status.TAKEN, Reason.TAKEN) for number in range(4)},
        "a/seg.dcm": (Status.TAKEN, Reason.REFERENCE),
        "b.dcm": (Status.TAKEN, Reason.TAKEN),
        "labels.csv, 2": (Status.TAKEN, Reason.REFERENCE),
        "n/scan_ct.nii": (Status.TAKEN, Reason.TAKEN),
        "n/scan_ct_mask.nii": (Status.TAKEN, Reason.REFERENCE),
        "note.txt": (Status.REFUSED, Reason.NOT_DICOM),
    }
    assert result.report.patients == 3
    assert len(result.images) == result.report.images == 4 + 1 + 8
    assert all(image.picture.findings is not None and image.picture.findings.any() for image in result.images)


def test_nifti_alone_is_enough_and_nothing_is_not(tmp_path: Path) -> None:
    save(image_of(blobs(0)), np.eye(4), tmp_path / "share/scan_ct.nii")
    (tmp_path / "map.csv").write_text("kind,value,unit\npatient,scan_ct,A\n")
    mapped = SiteMap.load(tmp_path / "map.csv")
    assert len(ingest_site(tmp_path / "share", KEY, site_map=mapped, body_part="CHEST").images) == 8
    with pytest.raises(NoImages) as caught:
        ingest_site(tmp_path / "share", KEY)
    assert [file.reason for file in caught.value.result.report.files] == [Reason.UNMAPPED]


def test_the_command_keeps_findings_in_the_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hospital = Hospital(tmp_path)
    everything(tmp_path / "dicom")
    options = ["--labels", str(tmp_path / "labels.csv"), "--map", str(tmp_path / "map.csv"), "--body-part", "CHEST"]
    assert main(["bank", "ingest", str(hospital.file), *options]) == 0
    assert re.search(r"13 images of 3 patients", capsys.readouterr().out)
    store = ImageStore.open(tmp_path / "state/images", tmp_path / "state/bank.key")
    pictures = [picture for patient in store.patients() for picture in store.pictures(patient)]
    assert len(pictures) == 13
    assert all(picture.findings is not None and picture.findings.any() for picture in pictures)
    report = json.loads((tmp_path / "state/ingest_report.json").read_text())
    assert {"path": "a/seg.dcm", "status": "taken", "reason": "used as a reference"} in report["files"]


def test_a_bad_label_file_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hospital = Hospital(tmp_path)
    everything(tmp_path / "dicom")
    (tmp_path / "labels.csv").write_text("wrong")
    assert main(["bank", "ingest", str(hospital.file), "--labels", str(tmp_path / "labels.csv")]) == 1
    said = capsys.readouterr().err.strip()
    assert said.startswith("bat-client: labels have the columns kind, value, label")
    assert "\n" not in said
