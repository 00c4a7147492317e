"""Everything under a folder at once: DICOM with its references, NIfTI with its masks, and the site's label files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from stage_bank.ingest.folder import IMAGES_PER_PATIENT, IngestResult, NoImages, ingest_folder
from stage_bank.ingest.references.dicom import DicomReferences
from stage_bank.ingest.references.labels import LabelReferences
from stage_bank.ingest.references.nifti import ingest_nifti
from stage_bank.ingest.references.together import Together
from stage_bank.ingest.report import IngestReport
from stage_bank.ingest.site_map import SiteMap

__all__ = ["ingest_site"]


def ingest_site(
    folder: Path,
    site_key: bytes,
    *,
    site_map: SiteMap | None = None,
    labels: Sequence[Path] = (),
    body_part: str = "",
    per_patient: int = IMAGES_PER_PATIENT,
) -> IngestResult:
    """`ingest_folder` and `ingest_nifti` with every reference there is.

    Args:
        folder: any nesting.
        site_key: secret of the site, at least 16 bytes.
        site_map: the site's own identities.
        labels: files as `read_labels` takes them; they count for DICOM images.
        body_part: what NIfTI volumes show, DICOM defined term.
        per_patient: pictures of one patient from DICOM, and as many from NIfTI, at most.

    Raises:
        NoImages: not one usable image.
        DataError: the folder is missing or empty.
        ConfigurationError: a label file cannot be read.
    """
    references = Together([DicomReferences(site_key, site_map), *(LabelReferences(path, folder) for path in labels)])
    missing = None
    try:
        dicom = ingest_folder(folder, site_key, site_map=site_map, references=references, per_patient=per_patient)
    except NoImages as error:
        dicom, missing = error.result, error
    nifti = ingest_nifti(folder, site_key, site_map, body_part=body_part, per_patient=per_patient)
    both = _joined(dicom, nifti)
    if missing is not None and not both.images:
        raise NoImages(both, missing.what, where=missing.where, remedy=missing.remedy)
    return both


def _joined(dicom: IngestResult, nifti: IngestResult) -> IngestResult:
    images = dicom.images + nifti.images
    files = {file.path: file for file in (*dicom.report.files, *nifti.report.files)}
    report = IngestReport(
        files=tuple(files[name] for name in sorted(files)),
        patients=len({image.patient for image in images}),
        images=len(images),
        seconds=dicom.report.seconds + nifti.report.seconds,
        series=dicom.report.series,
    )
    return IngestResult(images, report, dicom.identifiers | nifti.identifiers)
