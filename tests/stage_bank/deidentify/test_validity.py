"""A judge of its own: what the validator of dicom3tools says about an object before and after."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from pathlib import Path

import pytest
from pydicom.data import get_testdata_file

from stage_bank.deidentify import FaceCheck, Options, TextCheck, deidentify
from stage_bank.dicom.read import read_dataset
from tests.stage_bank.dicom_files import KEY

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("dciodvfy") is None, reason="dicom3tools is not installed"),
]


def find(name: str) -> Path:
    spec = importlib.util.find_spec("data_store")
    assert spec is not None
    assert spec.origin is not None
    return next(Path(spec.origin).parent.rglob(name), None) or Path(str(get_testdata_file(name)))


def errors(path: Path) -> set[str]:
    run = subprocess.run(["dciodvfy", str(path)], capture_output=True, timeout=60, check=False)
    return {line for line in run.stderr.decode("utf-8", "replace").splitlines() if line.startswith("Error")}


@pytest.mark.parametrize(
    "name",
    [
        "CT_small.dcm", "MR_small.dcm", "693_UNCI.dcm", "RG1_UNCR.dcm", "explicit_VR-UN.dcm", "liver_1frame.dcm",
        "rtstruct.dcm", "rtdose.dcm", "JPGLosslessP14SV1_1s_1f_8b.dcm",
    ],
)  # fmt: skip
def test_de_identification_makes_no_object_less_valid(tmp_path, name):
    path = find(name)
    options = Options(text=TextCheck.NONE, faces=FaceCheck.KEEP)
    deidentify(read_dataset(path), KEY, options=options).save_as(tmp_path / "clean.dcm", enforce_file_format=True)
    assert errors(tmp_path / "clean.dcm") <= errors(path)
