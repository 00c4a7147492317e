"""NIfTI in, pictures of pseudonymous patients out, with the masks that lie beside them."""

from __future__ import annotations

import hashlib
import itertools
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydicom.dataset import Dataset

from common.errors import DataError
from stage_bank.dicom.identity import pseudonym, series_pseudonym
from stage_bank.dicom.quiet import quiet
from stage_bank.dicom.read import Refused
from stage_bank.dicom.reasons import Reason
from stage_bank.ingest.folder import IMAGES_PER_PATIENT, IngestResult, PatientImage
from stage_bank.ingest.geometry import evenly
from stage_bank.ingest.references.nifti_layout import Case, find_cases
from stage_bank.ingest.references.nifti_slices import NiftiSlices
from stage_bank.ingest.references.nifti_volume import Volume, read_volume
from stage_bank.ingest.render import shrink_mask
from stage_bank.ingest.report import FileReport, IngestReport, Status
from stage_bank.ingest.series import SLICES_PER_SERIES
from stage_bank.ingest.site_map import SiteMap
from stage_bank.picture import Picture

__all__ = ["ingest_nifti"]

_SAME_PLACE = 0.1
"""Of the smallest edge of a voxel: how far a corner of a mask may lie from that of its image."""
_SAME_SPACING = 5e-4
_TELLING = re.compile(r"(?=.*\d).{6,}")
"""Names of cases that cannot be words."""


@quiet()
def ingest_nifti(
    folder: Path,
    site_key: bytes,
    site_map: SiteMap | None = None,
    *,
    body_part: str = "",
    per_patient: int = IMAGES_PER_PATIENT,
) -> IngestResult:
    """Read every NIfTI file under `folder` and return pictures of the patients that the site map names.

    NIfTI has no patient: the map must name each case, by the path of its image (`file`) or by the case (`patient`);
    other cases are quarantined. A mask that does not lie exactly on its image is refused, and the image taken without.

    Args:
        folder: any nesting, also of the nnU-Net layout.
        site_key: secret of the site, at least 16 bytes.
        site_map: the site's own identities.
        body_part: what all volumes show, DICOM defined term. Where it is empty, volumes in which a head would fit lose
            their face or are refused.
        per_patient: pictures of one patient, at most.

    Returns:
        Images, perhaps none; a report on NIfTI files and `dataset.json` alone; strings that could name a patient.

    Raises:
        DataError: there is no such folder.
    """
    if len(site_key) < 16:
        raise ValueError("the site key has fewer than 16 bytes")
    if not folder.is_dir():
        raise DataError("the folder does not exist", where=str(folder), remedy="Check the path in site.toml.")
    started = time.monotonic()
    layout = find_cases(folder)
    files = {noted.path: noted for noted in layout.reports}
    identifiers: set[str] = set()
    images: dict[str, list[PatientImage]] = {}
    seen: set[tuple[str, bytes]] = set()
    for case in layout.cases:
        identifiers |= {name for name in (case.name, Path(case.image.name).name) if _TELLING.fullmatch(name)}
        try:
            patient = _patient(case, site_key, site_map)
        except Refused as refusal:
            files[case.image.name] = FileReport(case.image.name, Status.QUARANTINED, refusal.reason)
            continue
        of_patient = images.setdefault(patient, [])
        reader = _CaseReader(case, site_key, patient, body_part, seen, identifiers)
        of_patient += reader.read(min(SLICES_PER_SERIES, per_patient - len(of_patient)))
        for noted in reader.reports:
            files[noted.path] = _worse(files.get(noted.path), noted)
    kept = tuple(itertools.chain.from_iterable(images[patient] for patient in sorted(images)))
    report = IngestReport(
        files=tuple(files[name] for name in sorted(files)),
        patients=len({image.patient for image in kept}),
        images=len(kept),
        seconds=time.monotonic() - started,
    )
    return IngestResult(kept, report, frozenset(identifiers))


def _patient(case: Case, site_key: bytes, site_map: SiteMap | None) -> str:
    named = Dataset()
    named.PatientID = case.name
    identity = None if site_map is None else site_map.identity(case.image.name, named)
    if identity is None:
        raise Refused(Reason.UNMAPPED)
    return pseudonym(site_key, identity)


def _worse(one: FileReport | None, other: FileReport) -> FileReport:
    """Of what two channels say of the mask that they share."""
    return one if one is not None and one.status is Status.REFUSED else other


class _CaseReader:
    """Pictures of one case, and what became of its files."""

    def __init__(
        self,
        case: Case,
        site_key: bytes,
        patient: str,
        body_part: str,
        seen: set[tuple[str, bytes]],
        identifiers: set[str],
    ) -> None:
        self._case, self._site_key, self._patient, self._body_part = case, site_key, patient, body_part
        self._seen, self._identifiers = seen, identifiers
        self.reports: list[FileReport] = []

    def read(self, wanted: int) -> list[PatientImage]:
        """At most `wanted` pictures, evenly spaced over the volume."""
        if wanted <= 0:
            self._note(Status.SPARE, Reason.ENOUGH)
            return []
        try:
            volume = read_volume(self._case.image.path)
            self._identifiers |= volume.texts
            slices = NiftiSlices(volume, self._case.modality, self._body_part)
            pictures = list(itertools.islice(self._pictures(slices), wanted))
        except Refused as refusal:
            self._note(Status.REFUSED, refusal.reason)
            return []
        if not pictures:
            self._note(Status.SPARE, Reason.DUPLICATE)
            return []
        self._note(Status.TAKEN, Reason.TAKEN)
        mask = self._mask(volume)
        series = series_pseudonym(self._site_key, "", self._case.image.name)
        facts = {"modality": self._case.modality}
        return [
            PatientImage(self._patient, Picture(pixels, _findings(mask, index), facts), series)
            for index, pixels in pictures
        ]

    def _pictures(self, slices: NiftiSlices) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """Slices that show something new.

        Raises:
            Refused: none shows anything, or the first one is refused for what holds for all.
        """
        flat = 0
        for index in evenly(slices.count, SLICES_PER_SERIES):
            try:
                pixels = slices.picture(index, self._site_key, self._patient)
            except Refused as refusal:
                if refusal.reason is not Reason.FLAT:
                    raise
                flat += 1
                continue
            digest = hashlib.sha256(repr(pixels.shape).encode() + pixels.tobytes()).digest()
            if (self._patient, digest) not in self._seen:
                self._seen.add((self._patient, digest))
                yield index, pixels
        if flat == slices.count:
            raise Refused(Reason.FLAT)

    def _mask(self, image: Volume) -> Volume | None:
        if self._case.mask is None:
            return None
        name = self._case.mask.name
        try:
            mask = read_volume(self._case.mask.path)
            _check(mask, image, self._case.labels)
        except Refused as refusal:
            self.reports.append(FileReport(name, Status.REFUSED, refusal.reason))
            return None
        self.reports.append(FileReport(name, Status.TAKEN, Reason.REFERENCE))
        return replace(mask, affine=image.affine)

    def _note(self, status: Status, reason: Reason) -> None:
        self.reports.append(FileReport(self._case.image.name, status, reason))
        if self._case.mask is not None and status is not Status.TAKEN:
            unused = (Status.SPARE if status is Status.SPARE else Status.REFUSED, Reason.REFERENCE_UNUSED)
            self.reports.append(FileReport(self._case.mask.name, *unused))


def _check(mask: Volume, image: Volume, labels: frozenset[int] | None) -> None:
    """Whether a mask lies exactly on its image and holds labels.

    Raises:
        Refused: it does not.
    """
    if mask.stored.shape != image.stored.shape:
        raise Refused(Reason.REFERENCE_SHAPE)
    if not np.allclose(mask.spacing, image.spacing, rtol=_SAME_SPACING, atol=0.0):
        raise Refused(Reason.REFERENCE_SPACING)
    corners = np.array(list(itertools.product(*((0, length - 1) for length in image.stored.shape))))
    apart = np.c_[corners, np.ones(len(corners))] @ (mask.affine - image.affine).T
    if np.linalg.norm(apart, axis=1).max() > _SAME_PLACE * image.spacing.min():
        raise Refused(Reason.REFERENCE_AFFINE)
    for index in range(mask.stored.shape[2]):
        held = np.unique(mask.stored[:, :, index]).astype(np.float64) * mask.slope + mask.intercept
        whole = bool(np.isfinite(held).all()) and bool((held == np.round(held)).all())
        if not whole or (labels is not None and not {int(value) for value in held} <= labels):
            raise Refused(Reason.REFERENCE_VALUES)


def _findings(mask: Volume | None, index: int) -> NDArray[np.bool_] | None:
    return None if mask is None else shrink_mask(mask.values(index) != 0.0)
