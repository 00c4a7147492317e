"""Ingest a folder: every file read, every reason named, pictures of identified patients returned."""

from __future__ import annotations

import hashlib
import hmac
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydicom.dataset import FileDataset
from pydicom.uid import MediaStorageDirectoryStorage

from common.errors import DataError
from stage_bank.deidentify.dataset import MODALITIES, deidentify
from stage_bank.ingest.decode import frame_count
from stage_bank.ingest.identifiers import collect_identifiers
from stage_bank.ingest.identity import Identity, conflicts, pseudonym, read_identity
from stage_bank.ingest.quiet import quiet
from stage_bank.ingest.read import Refused, read_dataset
from stage_bank.ingest.render import MIN_SIDE, render
from stage_bank.ingest.report import FileReport, IngestReport, Reason, Status
from stage_bank.ingest.walk import Found, walk

__all__ = ["IngestResult", "PatientImage", "ingest_folder"]

IMAGES_PER_PATIENT = 8
FRAMES_PER_FILE = 3

_ACCEPTED = frozenset({"CR", "CT", "DX", "MG", "MR", "NM", "PT"})
"""Modalities whose pixels rarely carry text. Every other image needs BurnedInAnnotation NO."""

_NO_IMAGE = frozenset(
    {
        "AR", "ECG", "EPS", "HC", "HD", "KER", "KO", "LEN", "OAM", "OPV", "PLAN", "PR", "REG", "RESP",
        "RTDOSE", "RTPLAN", "RTRECORD", "RTSTRUCT", "RWV", "SEG", "SMR", "SR", "SRF", "STAIN", "TG", "VA",
    }
)  # fmt: skip
_SECONDARY_CAPTURE = "1.2.840.10008.5.1.4.1.1.7"


@dataclass(frozen=True)
class PatientImage:
    """One picture of one patient, with nothing of its header but the modality.

    Args:
        patient: keyed pseudonym, 32 hex digits.
        pixels: float32 `[height, width]` in [0, 1]; 48 to 512 pixels a side.
        modality: DICOM defined term.
    """

    patient: str
    pixels: NDArray[np.float32]
    modality: str


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


@dataclass(frozen=True)
class _Candidate:
    found: Found
    identity: Identity


@quiet()
def ingest_folder(folder: Path, site_key: bytes) -> IngestResult:
    """Read every file under `folder` and return the pictures of the patients that can be told apart.

    Headers are read first, because whether an identity is sound shows only when all files are known; then pixels are
    decoded patient by patient, in an order spread over the patient's files, until there are enough.

    Args:
        folder: any nesting; links inside it are followed, loops end.
        site_key: secret of the site, at least 16 bytes; decides pseudonyms.

    Raises:
        DataError: the folder is missing, empty, or without one usable image.
    """
    if len(site_key) < 16:
        raise ValueError("the site key has fewer than 16 bytes")
    _check_folder(folder)
    started = time.monotonic()
    outcome: dict[str, FileReport] = {}
    identifiers: set[str] = set()
    candidates = []
    for found in walk(folder):
        try:
            identity = _look(found, identifiers)
        except Refused as refusal:
            outcome[found.name] = FileReport(found.name, _status(refusal.reason), refusal.reason)
        else:
            candidates.append(_Candidate(found, identity))
    if not outcome and not candidates:
        raise DataError("the DICOM folder is empty", where=str(folder), remedy="Copy the studies into it.")
    images = []
    for group, reason in _by_patient(candidates):
        if reason is None:
            images += _take(group, site_key, outcome)
        else:
            for candidate in group:
                outcome[candidate.found.name] = FileReport(candidate.found.name, Status.QUARANTINED, reason)
    report = IngestReport(
        files=tuple(outcome[name] for name in sorted(outcome)),
        patients=len({image.patient for image in images}),
        images=len(images),
        seconds=time.monotonic() - started,
    )
    if not images:
        raise DataError(f"no usable image among {len(outcome)} files", where=str(folder), remedy=_advice(report))
    return IngestResult(tuple(images), report, frozenset(identifiers))


def _check_folder(folder: Path) -> None:
    if not folder.exists():
        raise DataError("the DICOM folder does not exist", where=str(folder), remedy="Check the path in site.toml.")
    if not folder.is_dir():
        raise DataError("the DICOM path is not a folder", where=str(folder), remedy="Give the folder that holds it.")


def _look(found: Found, identifiers: set[str]) -> Identity:
    """The identity of a file whose header promises a usable image."""
    if found.reason is not None:
        raise Refused(found.reason)
    dataset = read_dataset(found.path)
    identifiers |= collect_identifiers(dataset)
    _check_header(dataset)
    return read_identity(dataset)


def _check_header(dataset: FileDataset) -> None:
    if dataset.file_meta.get("MediaStorageSOPClassUID") == MediaStorageDirectoryStorage:
        raise Refused(Reason.INDEX)
    modality = dataset.get("Modality")
    if modality in _NO_IMAGE:
        raise Refused(Reason.NOT_AN_IMAGE)
    if not any(keyword in dataset for keyword in ("PixelData", "FloatPixelData", "DoubleFloatPixelData")):
        raise Refused(Reason.NO_PIXELS)
    if not isinstance(modality, str) or modality not in MODALITIES:
        raise Refused(Reason.NO_MODALITY)
    safe = modality in _ACCEPTED and not str(dataset.get("SOPClassUID", "")).startswith(_SECONDARY_CAPTURE)
    declared = dataset.get("BurnedInAnnotation")
    if declared != "NO" and (not safe or declared):
        raise Refused(Reason.BURNED_IN)
    if min(dataset.get("Rows") or 0, dataset.get("Columns") or 0) < MIN_SIDE:
        raise Refused(Reason.TOO_SMALL)


def _status(reason: Reason) -> Status:
    unknown = (Reason.NO_PATIENT, Reason.PLACEHOLDER, Reason.SEVERAL_PATIENTS)
    return Status.QUARANTINED if reason in unknown else Status.REFUSED


def _by_patient(candidates: list[_Candidate]) -> Iterator[tuple[list[_Candidate], Reason | None]]:
    contradicting = conflicts(candidate.identity for candidate in candidates)
    groups: dict[tuple[str, str], list[_Candidate]] = defaultdict(list)
    for candidate in candidates:
        groups[candidate.identity.key].append(candidate)
    for key in sorted(groups):
        yield groups[key], contradicting.get(key)


def _take(group: list[_Candidate], site_key: bytes, outcome: dict[str, FileReport]) -> list[PatientImage]:
    """Pictures of one patient; duplicates are dropped within the patient only, nothing couples patients."""
    patient = pseudonym(site_key, group[0].identity)
    seen: set[bytes] = set()
    images: list[PatientImage] = []
    for candidate in sorted(group, key=lambda c: _shuffle_key(site_key, c.found.name)):
        name = candidate.found.name
        if len(images) >= IMAGES_PER_PATIENT:
            outcome[name] = FileReport(name, Status.SPARE, Reason.ENOUGH)
            continue
        try:
            pictures, modality = _pictures(candidate.found.path, site_key)
        except Refused as refusal:
            outcome[name] = FileReport(name, Status.REFUSED, refusal.reason)
            continue
        fresh = {hashlib.sha256(picture.tobytes()).digest(): picture for picture in pictures}
        fresh = {digest: picture for digest, picture in fresh.items() if digest not in seen}
        seen |= fresh.keys()
        images += [PatientImage(patient, picture, modality) for picture in fresh.values()]
        taken = (Status.TAKEN, Reason.TAKEN) if fresh else (Status.SPARE, Reason.DUPLICATE)
        outcome[name] = FileReport(name, *taken)
    return images[:IMAGES_PER_PATIENT]


def _pictures(path: Path, site_key: bytes) -> tuple[list[NDArray[np.float32]], str]:
    dataset = read_dataset(path)
    count = frame_count(dataset)
    wanted = sorted({(2 * i + 1) * count // (2 * FRAMES_PER_FILE) for i in range(FRAMES_PER_FILE)})
    try:
        clean = deidentify(dataset, site_key, frames=wanted)
        return render(clean), str(clean.Modality)
    except (DataError, ValueError, AttributeError) as error:
        raise Refused(Reason.DAMAGED) from error


def _shuffle_key(site_key: bytes, name: str) -> bytes:
    return hmac.new(site_key, b"order\0" + name.encode(), hashlib.sha256).digest()


def _advice(report: IngestReport) -> str:
    first = next((file for file in report.files if file.status is not Status.SPARE), None)
    example = f"; for example {first.path}: {first.reason}" if first else ""
    return f"Give DICOM images with patient IDs{example}"
