"""What ingest says about every file it met: taken, or by name why not. Site-local; it never leaves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from common.canonical import Json
from common.errors import one_line
from stage_bank.dicom.reasons import Reason

__all__ = ["FileReport", "IngestReport", "SeriesReport", "Status"]


class Status(StrEnum):
    """What became of a file."""

    TAKEN = "taken"
    SPARE = "spare"
    REFUSED = "refused"
    QUARANTINED = "quarantined"


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
