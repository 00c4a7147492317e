"""Ingest a folder: every file read, every reason named, pictures of identified patients returned."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from common.errors import DataError
from stage_bank.dicom.identity import conflicts, pseudonym, series_pseudonym
from stage_bank.dicom.quiet import quiet
from stage_bank.dicom.read import Refused
from stage_bank.dicom.reasons import Reason
from stage_bank.dicom.walk import walk
from stage_bank.ingest.archives import unpacked
from stage_bank.ingest.hooks import References, SeriesSlice, SeriesSource
from stage_bank.ingest.render import shrink_mask
from stage_bank.ingest.report import FileReport, IngestReport, SeriesReport, Status
from stage_bank.ingest.series import SLICES_PER_SERIES, Taken, read_series, series_geometry
from stage_bank.ingest.site_map import SiteMap
from stage_bank.ingest.survey import Candidate, survey
from stage_bank.picture import Picture

__all__ = ["IMAGES_PER_PATIENT", "IngestResult", "NoImages", "PatientImage", "ingest_folder"]

IMAGES_PER_PATIENT = 8


@dataclass(frozen=True)
class PatientImage:
    """One picture of one patient.

    Args:
        patient: keyed pseudonym, 32 hex digits.
        picture: pixels, findings and facts (`modality`).
        series: keyed pseudonym of the series, or of the file where it has none, 32 hex digits.
    """

    patient: str
    picture: Picture
    series: str

    @property
    def pixels(self) -> NDArray[np.float32]:
        """The picture's pixels."""
        return self.picture.pixels

    @property
    def modality(self) -> str:
        """DICOM defined term."""
        return self.picture.facts["modality"]


@dataclass(frozen=True)
class IngestResult:
    """What ingest gives.

    Args:
        images: pictures, grouped by patient.
        report: every file and what became of it; site-local.
        identifiers: strings of all parsed files that could name a patient, for the patient wall; kept in memory only.
    """

    images: tuple[PatientImage, ...]
    report: IngestReport
    identifiers: frozenset[str] = field(repr=False)


class NoImages(DataError):
    """A folder without one usable image.

    Args:
        result: without images, but with the report and the identifiers.
        what: what is wrong.
        where: the folder.
        remedy: what to do next.
    """

    def __init__(self, result: IngestResult, what: str, *, where: str, remedy: str) -> None:
        self.result = result
        super().__init__(what, where=where, remedy=remedy)


@dataclass
class _Book:
    """What is known of every file and series so far."""

    files: dict[str, FileReport] = field(default_factory=dict)
    series: list[SeriesReport] = field(default_factory=list)
    identifiers: set[str] = field(default_factory=set)

    def note(self, report: FileReport) -> None:
        self.files[report.path] = report


@quiet()
def ingest_folder(
    folder: Path,
    site_key: bytes,
    *,
    site_map: SiteMap | None = None,
    references: References | None = None,
    per_patient: int = IMAGES_PER_PATIENT,
) -> IngestResult:
    """Read every file under `folder` and return the pictures of the patients that can be told apart.

    Headers are read first, because whether an identity is sound, and where a slice lies in its series, shows only when
    all files are known. Then pixels are decoded file by file, series in an order that the key decides, until there are
    enough.

    Args:
        folder: any nesting; links inside it are followed, loops end; archives are opened in a private folder elsewhere.
        site_key: secret of the site, at least 16 bytes; decides pseudonyms.
        site_map: the site's own identities, before those of the headers.
        references: shown every reference file, asked for findings of every series.
        per_patient: pictures of one patient, at most.

    Raises:
        NoImages: not one usable image.
        DataError: the folder is missing or empty.
    """
    if len(site_key) < 16:
        raise ValueError("the site key has fewer than 16 bytes")
    _check_folder(folder)
    started = time.monotonic()
    book = _Book()
    candidates, images = [], []
    with unpacked(walk(folder)) as entries:
        for found in entries:
            try:
                candidates.append(survey(found, site_map, book.identifiers))
            except Refused as refusal:
                book.note(FileReport(found.name, _status(refusal.reason), refusal.reason))
                if references is not None and refusal.reason is Reason.NOT_AN_IMAGE:
                    references.offer(found)
        if not book.files and not candidates:
            raise DataError("the DICOM folder is empty", where=str(folder), remedy="Copy the studies into it.")
        for group, reason in _by_patient(candidates):
            if reason is None:
                images += _patient(group, site_key, per_patient, references, book)
            else:
                for candidate in group:
                    book.note(FileReport(candidate.found.name, Status.QUARANTINED, reason))
    for noted in () if references is None else references.reports():
        book.note(noted)
    report = IngestReport(
        files=tuple(book.files[name] for name in sorted(book.files)),
        patients=len({image.patient for image in images}),
        images=len(images),
        seconds=time.monotonic() - started,
        series=tuple(book.series),
    )
    result = IngestResult(tuple(images), report, frozenset(book.identifiers))
    if not images:
        what = f"no usable image among {len(book.files)} files"
        raise NoImages(result, what, where=str(folder), remedy=_advice(report))
    return result


def _check_folder(folder: Path) -> None:
    if not folder.exists():
        raise DataError("the DICOM folder does not exist", where=str(folder), remedy="Check the path in site.toml.")
    if not folder.is_dir():
        raise DataError("the DICOM path is not a folder", where=str(folder), remedy="Give the folder that holds it.")


def _status(reason: Reason) -> Status:
    unknown = (Reason.NO_PATIENT, Reason.PLACEHOLDER, Reason.SEVERAL_PATIENTS)
    return Status.QUARANTINED if reason in unknown else Status.REFUSED


def _by_patient(candidates: list[Candidate]) -> Iterator[tuple[list[Candidate], Reason | None]]:
    contradicting = conflicts(candidate.identity for candidate in candidates)
    groups: dict[tuple[str, str], list[Candidate]] = defaultdict(list)
    for candidate in candidates:
        groups[candidate.identity.key].append(candidate)
    for key in sorted(groups):
        yield groups[key], contradicting.get(key)


def _patient(
    group: list[Candidate], site_key: bytes, most: int, references: References | None, book: _Book
) -> list[PatientImage]:
    """Pictures of one patient; duplicates are dropped within the patient only, nothing couples patients."""
    patient = pseudonym(site_key, group[0].identity)
    by_series: dict[str, list[Candidate]] = defaultdict(list)
    for candidate in group:
        by_series[series_pseudonym(site_key, candidate.series, candidate.found.name)].append(candidate)
    seen: set[bytes] = set()
    images: list[PatientImage] = []
    for series in sorted(by_series):
        files = by_series[series]
        order, issues = series_geometry(files)
        if issues:
            book.series.append(SeriesReport(series, len(files), tuple(sorted(issues))))
        wanted = min(SLICES_PER_SERIES, most - len(images))
        taken: list[Taken] = []
        for report, fresh in read_series(files, order, site_key, wanted, seen):
            book.note(report)
            taken += fresh
        if taken:
            findings = _findings(files, patient, taken, references)
            images += [PatientImage(patient, _picture(*pair), series) for pair in zip(taken, findings, strict=True)]
    return images


def _findings(
    files: list[Candidate], patient: str, taken: list[Taken], references: References | None
) -> list[NDArray[np.bool_] | None]:
    if references is None:
        return [None] * len(taken)
    first, sources = files[0], tuple(one.source for one in taken)
    slices = (SeriesSlice(file.instance, frame, place) for file in files for frame, place in enumerate(file.places))
    series = SeriesSource(first.series, first.identity.study, first.frame_of_reference, patient, sources, tuple(slices))
    masks = list(references.findings_for(series))
    for mask, source in zip(masks, sources, strict=True):
        if mask is not None and mask.shape != source.shape:
            raise ValueError("a reference does not have the shape of its picture")
    return masks


def _picture(taken: Taken, mask: NDArray[np.bool_] | None) -> Picture:
    findings = None if mask is None else shrink_mask(mask)
    return Picture(taken.pixels, findings, {"modality": taken.modality})


def _advice(report: IngestReport) -> str:
    first = next((file for file in report.files if file.status is not Status.SPARE), None)
    example = f"; for example {first.path}: {first.reason}" if first else ""
    return f"Give DICOM images with patient IDs{example}"
