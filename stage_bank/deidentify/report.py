"""What a privacy officer reads after a folder was de-identified: every file, what was done, or why it was refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from common.canonical import Json
from stage_bank.deidentify.marks import Done
from stage_bank.dicom.reasons import Reason

__all__ = ["FileOutcome", "FolderReport"]


@dataclass(frozen=True)
class FileOutcome:
    """One input file.

    Args:
        path: relative to the input folder. It may name a patient: the report stays at the site.
        refused: why nothing was written, or `None`.
        written: path of the output relative to its folder; empty when refused.
        done: what was done; `None` when refused.
        strings_checked: strings of the original header that were looked for in the output, and not found.
    """

    path: str
    refused: Reason | None = None
    written: str = ""
    done: Done | None = None
    strings_checked: int = 0


@dataclass(frozen=True)
class FolderReport:
    """One run over a folder.

    Args:
        profile: name of the profile.
        text_search: whether tesseract was there.
        faces: what was done about head volumes.
        files: sorted by path.
        seconds: elapsed time.
    """

    profile: str
    text_search: bool
    faces: str
    files: tuple[FileOutcome, ...]
    seconds: float

    @property
    def complete(self) -> bool:
        """Whether every file was written."""
        return all(file.refused is None for file in self.files)

    @property
    def refusals(self) -> Mapping[str, int]:
        """Number of files by reason."""
        return dict(sorted(Counter(file.refused.value for file in self.files if file.refused).items()))

    def lines(self) -> list[str]:
        """A summary, then one line for each reason."""
        written = sum(file.refused is None for file in self.files)
        head = f"{written} of {len(self.files)} files de-identified in {self.seconds:.1f} s (profile {self.profile})"
        return [head, *(f"refused: {count} x {reason}" for reason, count in self.refusals.items())]

    def to_json(self) -> dict[str, Json]:
        """The report for a file at the site; it holds names of input files and must not leave."""
        return {
            "profile": self.profile,
            "text_search": self.text_search,
            "faces": self.faces,
            "seconds": round(self.seconds, 3),
            "files_met": len(self.files),
            "files_written": sum(file.refused is None for file in self.files),
            "refusals": dict(self.refusals),
            "files": [_entry(file) for file in self.files],
        }


def _entry(file: FileOutcome) -> dict[str, Json]:
    if file.refused or file.done is None:
        return {"path": file.path, "status": "refused", "reason": file.refused.value if file.refused else ""}
    done = {**asdict(file.done), "text_share": round(file.done.text_share, 4)}
    return {
        "path": file.path,
        "status": "written",
        "written": file.written,
        "done": done,
        "strings_checked": file.strings_checked,
    }
