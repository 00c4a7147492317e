"""Three hospital folders from the DICOM files that ship in the pydicom and pydicom-data packages, split by patient.

The sites differ in modality, as hospitals do: computed tomography, magnetic resonance, and plain X-ray with nuclear
medicine. Each folder also holds what real folders hold: files that must be refused or quarantined. No patient whose
images serve demonstrations or held-out suites (`stage_bank.images`) is at a site.
"""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pydicom
from pydicom.uid import NuclearMedicineImageStorage

from common.errors import DataError

__all__ = ["SITES", "make"]


@dataclass(frozen=True)
class _Site:
    """Files of one hospital.

    Args:
        patients: folder name in the site to names of package files.
        attested: secondary captures of nuclear medicine whose pixels were looked at and hold no text. The hospital
            stores them as what they are, nuclear medicine images with BurnedInAnnotation NO; as captures they would
            need the text search.
        truncated: package file of which the site also holds a cut copy.
    """

    patients: Mapping[str, tuple[str, ...]]
    attested: tuple[str, ...] = ()
    truncated: str = ""


SITES: Mapping[str, _Site] = {
    "ct": _Site(
        {
            "1CT1": ("CT_small.dcm",),
            "CQ500": ("693_UNCI.dcm", "693_UNCR.dcm", "693_J2KI.dcm", "693_J2KR.dcm"),
            "PANCREAS": ("explicit_VR-UN.dcm",),
            "TINY": ("dicomdirtests/98892001/CT2N/6293", "dicomdirtests/98892001/CT5N/2062"),
            "EMPTY": ("dicomdirtests/TINY_ALPHA/PT000000/ST000000/SE000000/IM000000",),
            "LIVER": ("liver_1frame.dcm",),
            "INDEX": ("dicomdirtests/DICOMDIR",),
        },
        truncated="CT_small.dcm",
    ),
    "mr": _Site(
        {
            "4MR1": ("MR_small.dcm", "MR_small_RLE.dcm", "MR_small_jpeg_ls_lossless.dcm", "MR_truncated.dcm"),
            "5MR2": ("MR2_UNCR.dcm", "MR2_UNCI.dcm", "MR2_J2KR.dcm", "MR2_J2KI.dcm"),
            "021234567": ("examples_overlay.dcm", "MR-SIEMENS-DICOM-WithOverlays.dcm"),
            "NOBODY": ("emri_small.dcm", "emri_small_RLE.dcm", "emri_small_jpeg_2k_lossless.dcm"),
            "REPORT": ("reportsi.dcm",),
        },
        truncated="MR2_J2KR.dcm",
    ),
    "xray": _Site(
        {
            "9RG1": ("RG1_UNCR.dcm", "RG1_UNCI.dcm", "RG1_J2KI.dcm"),
            "11RG3": ("RG3_UNCR.dcm", "RG3_UNCI.dcm", "RG3_J2KI.dcm"),
            "8NM1": ("JPEG-LL.dcm", "JPEG2000_UNC.dcm", "JPGExtended.dcm"),
            "TINY": ("dicomdirtests/77654033/CR1/6154", "dicomdirtests/77654033/CR2/6247"),
            "DOSE": ("rtdose.dcm",),
        },
        attested=("JPEG-LL.dcm", "JPEG2000_UNC.dcm"),
        truncated="RG3_J2KR.dcm",
    ),
}
"""Site name to its files."""


def make(root: Path) -> dict[str, Path]:
    """Write the three folders under `root`, replacing what an earlier call left there.

    Returns:
        Site name ("ct", "mr", "xray") to its folder.

    Raises:
        DataError: the package pydicom-data is not installed.
    """
    sources = _package_folders()
    return {name: _make_site(root / name, site, sources) for name, site in SITES.items()}


def _make_site(folder: Path, site: _Site, sources: tuple[Path, ...]) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    for patient, files in site.patients.items():
        target = folder / patient
        target.mkdir(parents=True)
        for file in files:
            copy = target / Path(file).name
            if file in site.attested:
                _attest(_locate(file, sources), copy)
            else:
                shutil.copyfile(_locate(file, sources), copy)
    whole = _locate(site.truncated, sources).read_bytes()
    (folder / "interrupted_transfer.dcm").write_bytes(whole[: len(whole) // 2])
    (folder / "README.txt").write_text("Export of the research archive. Not an image.\n", encoding="utf-8")
    (folder / "empty.dcm").touch()
    return folder


def _attest(source: Path, target: Path) -> None:
    dataset = pydicom.dcmread(source)
    dataset.BurnedInAnnotation = "NO"
    dataset.SOPClassUID = dataset.file_meta.MediaStorageSOPClassUID = NuclearMedicineImageStorage
    dataset.pop("ConversionType", None)
    dataset.save_as(target)


def _locate(file: str, sources: tuple[Path, ...]) -> Path:
    for folder in sources:
        if (folder / file).is_file():
            return folder / file
    raise DataError("sample file is missing from the packages", where=file, remedy="Run `make setup` again.")


def _package_folders() -> tuple[Path, ...]:
    spec = importlib.util.find_spec("data_store")
    if spec is None or spec.origin is None:
        raise DataError("the sample images are not installed", where="pydicom-data", remedy="Run `make setup`.")
    return Path(pydicom.__file__).parent / "data/test_files", Path(spec.origin).parent / "data"
