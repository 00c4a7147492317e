"""De-identify a folder on its own: every file written without its patient, or refused by name.

Headers are read first, because whether a series is a head volume shows only when all its files are known. Then files
are treated one by one; one bad file never stops the rest. Output names are made of the new UIDs alone.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from common.errors import ConfigurationError, DataError
from common.files import write_durably
from stage_bank.deidentify.dataset import Options, deidentify_with
from stage_bank.deidentify.faces import FaceCheck
from stage_bank.deidentify.profiles import Profile
from stage_bank.deidentify.proof import checked_bytes
from stage_bank.deidentify.report import FileOutcome, FolderReport
from stage_bank.deidentify.series import SeriesFile, series_face_plane
from stage_bank.deidentify.text import Tesseract
from stage_bank.dicom.quiet import quiet
from stage_bank.dicom.read import Refused, read_dataset
from stage_bank.dicom.reasons import Reason
from stage_bank.dicom.walk import Found, walk

__all__ = ["check_folders", "deidentify_folder"]

_NOBODY = "unknown"


_Member = tuple[str, SeriesFile]
"""Name of a file in the report, and what its header says."""


@quiet()
def deidentify_folder(source: Path, target: Path, profile: Profile, options: Options) -> FolderReport:
    """Write a de-identified copy of every object under `source` that can be made safe.

    Args:
        source: any nesting; only read.
        target: made when absent; must be empty.
        profile: dates and names.
        options: text and faces.

    Raises:
        ConfigurationError, DataError: the folders cannot be used.
    """
    check_folders(source, target)
    started = time.monotonic()
    outcomes: dict[str, FileOutcome] = {}
    series: dict[str, list[_Member]] = defaultdict(list)
    for found in walk(source):
        try:
            uid, file = _survey(found)
            series[uid].append((found.name, file))
        except Refused as refusal:
            outcomes[found.name] = FileOutcome(found.name, refusal.reason)
    if not outcomes and not series:
        raise DataError("the folder is empty", where=str(source), remedy="Copy the studies into it.")
    target.mkdir(parents=True, exist_ok=True)
    written: set[str] = set()
    for members in series.values():
        for outcome in _series(members, target, profile, options, written):
            outcomes[outcome.path] = outcome
    return FolderReport(
        profile=profile.name.value,
        text_search=Tesseract.find() is not None,
        faces=options.faces.value,
        files=tuple(outcomes[name] for name in sorted(outcomes)),
        seconds=time.monotonic() - started,
    )


def check_folders(source: Path, target: Path) -> None:
    """Refuse folders by which input might be changed or mixed with output.

    Raises:
        DataError: the input is no folder.
        ConfigurationError: the output is inside the input, around it, or not empty.
    """
    if not source.is_dir():
        raise DataError("the input is not a folder", where=str(source), remedy="Name the folder with the DICOM files.")
    inner, outer = target.resolve(), source.resolve()
    if inner.is_relative_to(outer) or outer.is_relative_to(inner):
        raise ConfigurationError(
            "one folder is inside the other", where=f"{source}, {target}", remedy="Name an output folder elsewhere."
        )
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ConfigurationError("the output is not an empty folder", where=str(target), remedy="Name a new folder.")


def _survey(found: Found) -> tuple[str, SeriesFile]:
    if found.reason is not None:
        raise Refused(found.reason)
    dataset = read_dataset(found.path)
    return str(dataset.get("SeriesInstanceUID") or found.name), SeriesFile.look(found.path, dataset)


def _series(
    members: list[_Member], target: Path, profile: Profile, options: Options, written: set[str]
) -> Iterator[FileOutcome]:
    try:
        plane = series_face_plane([file for _, file in members]) if options.faces is FaceCheck.REMOVE else None
    except Refused as refusal:
        yield from (FileOutcome(name, refusal.reason) for name, _ in members)
        return
    for name, file in members:
        try:
            yield _one(name, file, target, profile, replace(options, face_mask=file.face_mask(plane)), written)
        except Refused as refusal:
            yield FileOutcome(name, refusal.reason)
        except OSError as error:
            raise DataError(f"cannot write: {error.strerror}", where=str(target), remedy="Make room.") from error
        except Exception:  # hostile headers; whatever they raise, the other files go on
            yield FileOutcome(name, Reason.DAMAGED)


def _one(
    name: str, file: SeriesFile, target: Path, profile: Profile, options: Options, written: set[str]
) -> FileOutcome:
    original = read_dataset(file.path)
    if profile.names.uid(str(original.get("SOPInstanceUID", ""))) in written:
        raise Refused(Reason.SAME_OBJECT)
    result = deidentify_with(original, profile, options)
    clean = result.dataset
    data, strings = checked_bytes(original, clean)
    folder = Path(clean.PatientID or _NOBODY, str(clean.get("SeriesInstanceUID") or _NOBODY))
    place = folder / f"{clean.SOPInstanceUID}.dcm"
    (target / folder).mkdir(parents=True, exist_ok=True)
    write_durably(target / place, data)
    written.add(clean.SOPInstanceUID)
    return FileOutcome(name, None, place.as_posix(), result.done, strings)
