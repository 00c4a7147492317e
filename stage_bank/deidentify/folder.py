"""De-identify a folder on its own: every file written without its patient, or refused by name.

Headers are read first, because whether a series is a head volume shows only when all its files are known. Then files
are treated one by one; one bad file never stops the rest. Output names are made of the new UIDs alone.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from common.errors import ConfigurationError, DataError
from stage_bank.deidentify.dataset import Options, deidentify_with
from stage_bank.deidentify.faces import VOLUME_SLICES, FaceCheck, FacePlane, face_plane
from stage_bank.deidentify.heads import Shown, Slice, shown, slices_of
from stage_bank.deidentify.profiles import Profile
from stage_bank.deidentify.proof import checked_bytes
from stage_bank.deidentify.report import FileOutcome, FolderReport
from stage_bank.deidentify.text import Tesseract
from stage_bank.ingest.decode import decode_frames, frame_count
from stage_bank.ingest.quiet import quiet
from stage_bank.ingest.read import Refused, read_dataset
from stage_bank.ingest.report import Reason
from stage_bank.ingest.walk import Found, walk
from stage_bank.store.vault import write_durably

__all__ = ["check_folders", "deidentify_folder"]

_NOBODY = "unknown"


@dataclass(frozen=True)
class _Surveyed:
    found: Found
    series: str
    frames: int
    shown: Shown
    place: Slice | None


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
    series: dict[str, list[_Surveyed]] = defaultdict(list)
    for found in walk(source):
        try:
            surveyed = _survey(found)
            series[surveyed.series].append(surveyed)
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


def _survey(found: Found) -> _Surveyed:
    if found.reason is not None:
        raise Refused(found.reason)
    dataset = read_dataset(found.path)
    try:
        series = str(dataset.get("SeriesInstanceUID") or found.name)
        return _Surveyed(found, series, frame_count(dataset), shown([dataset]), slices_of(dataset, [0])[0])
    except Exception as error:  # hostile headers
        raise Refused(Reason.DAMAGED) from error


def _series(
    members: list[_Surveyed], target: Path, profile: Profile, options: Options, written: set[str]
) -> Iterator[FileOutcome]:
    try:
        plane = _face_plane(members) if options.faces is FaceCheck.REMOVE else None
    except Refused as refusal:
        yield from (FileOutcome(member.found.name, refusal.reason) for member in members)
        return
    for member in members:
        name = member.found.name
        try:
            mask = plane.mask(member.place) if plane and member.place and member.frames == 1 else None
            yield _one(member, target, profile, replace(options, face_mask=mask), written)
        except Refused as refusal:
            yield FileOutcome(name, refusal.reason)
        except OSError as error:
            raise DataError(f"cannot write: {error.strerror}", where=str(target), remedy="Make room.") from error
        except Exception:  # hostile headers; whatever they raise, the other files go on
            yield FileOutcome(name, Reason.DAMAGED)


def _one(member: _Surveyed, target: Path, profile: Profile, options: Options, written: set[str]) -> FileOutcome:
    original = read_dataset(member.found.path)
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
    return FileOutcome(member.found.name, None, place.as_posix(), result.done, strings)


def _face_plane(members: list[_Surveyed]) -> FacePlane | None:
    """The plane for the single-frame files of a series that is a head volume; `None` when it is none.

    Raises:
        Refused: it is one, and its face cannot be found.
    """
    slices = [member for member in members if member.frames == 1 and member.shown is not Shown.OTHER]
    if len(slices) < VOLUME_SLICES:
        return None
    named = next((member for member in slices if member.shown is Shown.HEAD), slices[0])
    header = read_dataset(named.found.path)
    return face_plane([member.place for member in slices], _pixels(slices), header)


def _pixels(members: list[_Surveyed]) -> Iterator[NDArray[np.generic]]:
    for member in members:
        yield decode_frames(read_dataset(member.found.path), [0]).frames[0]
