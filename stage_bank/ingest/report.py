"""What ingest says about every file it met: taken, or by name why not. Site-local; it never leaves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from common.canonical import Json
from common.errors import one_line

__all__ = ["FileReport", "IngestReport", "Reason", "SeriesReport", "Status"]


class Status(StrEnum):
    """What became of a file."""

    TAKEN = "taken"
    SPARE = "spare"
    REFUSED = "refused"
    QUARANTINED = "quarantined"


class Reason(StrEnum):
    """Every reason there is. Fixed sentences: nothing of a header, and no library's message, gets into the report."""

    TAKEN = "used"
    DUPLICATE = "same pixels as another file of the patient"
    ENOUGH = "the patient already has enough images"
    EMPTY_FILE = "zero bytes"
    NOT_REGULAR = "not a regular file"
    BROKEN_LINK = "link that leads nowhere"
    LOOP = "directory loop: this folder was already visited"
    OUTSIDE = "link that leaves the folder"
    UNREADABLE = "cannot be read (permission or disk error)"
    NOT_DICOM = "not DICOM"
    DAMAGED = "DICOM header is truncated or damaged"
    INDEX = "DICOMDIR: an index without images"
    NO_PIXELS = "no pixel data (not an image, or cut short before it)"
    TRUNCATED = "truncated: the file ends before its data does"
    UNDECODABLE = "pixel data cannot be decoded (damaged, or a compression that no decoder here knows)"
    VIDEO = "video"
    FLOAT_PIXELS = "floating-point pixel data is not read"
    NOT_AN_IMAGE = "modality is not an acquired image"
    NO_MODALITY = "modality is unknown"
    TOO_SMALL = "smaller than 48 x 48 pixels"
    TOO_LARGE = "larger than 64 megapixels a frame"
    TOO_MANY_FRAMES = "more than 65,536 frames"
    INFLATED = "compressed as a whole and larger than 512 MB when unpacked"
    FLAT = "image without contrast"
    NO_PATIENT = "patient ID is blank"
    PLACEHOLDER = "patient ID is a placeholder"
    SEVERAL_PATIENTS = "several patient IDs in one file"
    CONFLICT = "patient ID belongs to different names, birth dates or sexes"
    SHARED_STUDY = "study is shared by several patient IDs"
    NO_TABLE = "kind of object that no allow-list covers"
    DOCUMENT = "encapsulated document"
    NO_CONTENT = "structured report without coded or numeric content that may be kept"
    NO_TEXT_SEARCH = (
        "may show burned-in text and no language model for the text search (tesseract-ocr-eng) is installed"
    )
    TEXT_SEARCH_FAILED = "the search for burned-in text failed or took too long"
    TEXT = "burned-in text that cannot be blanked"
    HEAD = "volume of a head whose face cannot be removed"
    SAME_OBJECT = "same SOP instance as another file"
    ARCHIVE = "damaged or unknown archive"
    ARCHIVE_PATH = "archive member with a path that leaves the archive"
    ARCHIVE_LINK = "archive member that is no regular file"
    ARCHIVE_NESTED = "archive inside an archive"
    ARCHIVE_LOCKED = "encrypted archive member"
    ARCHIVE_BOMB = "archive member too large, or packed too tightly to be an image"
    REFERENCE = "used as a reference"
    REFERENCE_UNUSED = "reference of images of which no picture was made"
    REFERENCE_KIND = "reference of a kind that is not read"
    REFERENCE_PATIENT = "reference of another patient than its images"
    REFERENCE_FRAME = "reference in another frame of reference than its images"
    REFERENCE_SHAPE = "reference of another size than its images"
    REFERENCE_SPACING = "reference with another pixel spacing than its images"
    REFERENCE_ORIENTATION = "reference oriented differently from its images"
    REFERENCE_AFFINE = "reference with another affine than its image"
    REFERENCE_SLICES = "reference marks slices that its images do not have"
    REFERENCE_MOVED = "reference lies elsewhere than the slice it names"
    REFERENCE_OUTSIDE = "reference reaches outside its images"
    REFERENCE_NO_GEOMETRY = "reference or its images have no position, orientation or spacing"
    REFERENCE_VALUES = "reference whose values are no labels"
    NIFTI_DAMAGED = "NIfTI file is truncated, damaged or none"
    NIFTI_AXES = "NIfTI with an unusable affine, or with other than two to four dimensions"
    NIFTI_TOO_LARGE = "NIfTI of more than 512 MB"
    NIFTI_COLOUR = "NIfTI whose voxels are no plain numbers"
    NIFTI_LAYOUT = "dataset.json is damaged or not of the nnU-Net layout"
    UNMAPPED = "case to which the site map gives no patient"
    LEFT_OVER = "a string of the original header was still in the result"


@dataclass(frozen=True)
class FileReport:
    """One file (or folder link).

    Args:
        path: relative to the ingested folder, with forward slashes. File names may identify patients.
        status: what became of it.
        reason: why.
    """

    path: str
    status: Status
    reason: Reason


@dataclass(frozen=True)
class SeriesReport:
    """One series with something to know about its geometry.

    Args:
        series: keyed pseudonym.
        files: number of files.
        issues: sentences.
    """

    series: str
    files: int
    issues: tuple[str, ...]


@dataclass(frozen=True)
class IngestReport:
    """All files of one ingest, sorted by path.

    Args:
        files: one entry for each file met.
        patients: patients with at least one image.
        images: images taken (a multi-frame file gives several).
        seconds: elapsed time.
        series: series whose geometry shows something to know.
    """

    files: tuple[FileReport, ...]
    patients: int
    images: int
    seconds: float
    series: tuple[SeriesReport, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether every file was used or a spare one; False when any was refused or quarantined."""
        return not any(file.status in (Status.REFUSED, Status.QUARANTINED) for file in self.files)

    @property
    def counts(self) -> Mapping[str, int]:
        """Files by status, all four always present."""
        found = Counter(file.status for file in self.files)
        return {status.value: found[status] for status in Status}

    def lines(self) -> list[str]:
        """A summary line, then one line for each refused or quarantined file."""
        counts = ", ".join(f"{number} {status}" for status, number in self.counts.items())
        head = f"{self.images} images of {self.patients} patients from {len(self.files)} files ({counts})"
        left_out = [file for file in self.files if file.status in (Status.REFUSED, Status.QUARANTINED)]
        return [head, *(one_line(f"{file.status}: {file.path}: {file.reason}") for file in left_out)]

    def to_json(self) -> dict[str, Json]:
        """The report for a site-local file; it holds file names and must not leave the site."""
        return {
            "patients": self.patients,
            "images": self.images,
            "seconds": round(self.seconds, 3),
            "counts": dict(self.counts),
            "series": [{"series": s.series, "files": s.files, "issues": list(s.issues)} for s in self.series],
            "files": [{"path": f.path, "status": f.status.value, "reason": f.reason.value} for f in self.files],
        }
