"""One series into pictures: slices ordered by geometry, evenly spaced ones read, de-identified and rendered."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pydicom.dataset import FileDataset

from common.errors import DataError
from stage_bank.deidentify.dataset import Options, deidentify
from stage_bank.deidentify.faces import VOLUME_SLICES, face_plane
from stage_bank.deidentify.series import series_face_plane
from stage_bank.dicom.decode import decode_frames
from stage_bank.dicom.read import Refused, read_dataset
from stage_bank.dicom.reasons import Reason
from stage_bank.ingest.geometry import Issue, evenly, series_issues, stacks
from stage_bank.ingest.hooks import PictureSource
from stage_bank.ingest.render import render
from stage_bank.ingest.report import FileReport, Status
from stage_bank.ingest.survey import Candidate

__all__ = ["FRAMES_PER_FILE", "SLICES_PER_SERIES", "Taken", "read_series", "series_geometry"]

SLICES_PER_SERIES = 8
FRAMES_PER_FILE = 3
"""Frames taken of a file whose frames have no place, such as a cine loop."""


UNKNOWN_MODALITY = "OT"
"""Of a file that names none: the defined term for other."""


@dataclass(frozen=True)
class Taken:
    """One rendered picture.

    Args:
        pixels: float32 `[rows, columns]` in [0, 1].
        modality: DICOM defined term.
        source: where it came from.
    """

    pixels: NDArray[np.float32]
    modality: str
    source: PictureSource


def series_geometry(files: Sequence[Candidate]) -> tuple[list[int], frozenset[Issue]]:
    """Single-frame files of a series in the order of reading, and what is wrong with the geometry of all its frames."""
    places = [file.places[0] for file in files]
    found = stacks(places)
    order = [stack.order[index] for stack in found for index in evenly(len(stack.order), SLICES_PER_SERIES)]
    issues = series_issues(places, found) if len(files) > 1 else frozenset()
    for file in files:
        if len(file.places) > 1:
            issues |= series_issues(file.places, stacks(file.places))
    return order, issues


def read_series(
    files: Sequence[Candidate], order: Sequence[int], site_key: bytes, wanted: int, seen: set[bytes]
) -> Iterator[tuple[FileReport, list[Taken]]]:
    """Read files one at a time until the series has given enough pictures.

    Args:
        files: of one series.
        order: in which to try them.
        site_key: secret of the site.
        wanted: pictures of all files together, at most.
        seen: digests of the patient's pictures so far; extended.

    Yields:
        For each file, what became of it, and its pictures.
    """
    try:
        plane = series_face_plane([file.file for file in files])
    except Refused as refusal:
        yield from ((FileReport(file.found.name, Status.REFUSED, refusal.reason), []) for file in files)
        return
    count = 0
    for index in order:
        file = files[index]
        name = file.found.name
        if count >= wanted:
            yield FileReport(name, Status.SPARE, Reason.ENOUGH), []
            continue
        try:
            taken = _read(file, site_key, file.file.face_mask(plane))
        except Refused as refusal:
            yield FileReport(name, Status.REFUSED, refusal.reason), []
            continue
        fresh = [one for one in taken if _new(one.pixels, seen)][: wanted - count]
        count += len(fresh)
        status = (Status.TAKEN, Reason.TAKEN) if fresh else (Status.SPARE, Reason.DUPLICATE)
        yield FileReport(name, *status), fresh


def _new(pixels: NDArray[np.float32], seen: set[bytes]) -> bool:
    digest = hashlib.sha256(repr(pixels.shape).encode() + pixels.tobytes()).digest()
    if digest in seen:
        return False
    seen.add(digest)
    return True


def _read(file: Candidate, site_key: bytes, face: NDArray[np.bool_] | None) -> list[Taken]:
    dataset = read_dataset(file.found.path)
    frames = _frames(file)
    try:
        if file.file.frames > 1 and file.perhaps_head:
            face = _frame_faces(dataset, file, frames)
        clean = deidentify(dataset, site_key, frames=frames, options=Options(face_mask=face))
        pictures = render(clean)
        shape = (int(clean.Rows), int(clean.Columns))
        modality = str(clean.get("Modality") or UNKNOWN_MODALITY)
    except Refused:
        raise
    except (DataError, ValueError, AttributeError) as error:
        raise Refused(Reason.DAMAGED) from error
    sources = (PictureSource(file.found.path, file.instance, frame, file.places[frame], shape) for frame in frames)
    return [Taken(pixels, modality, source) for pixels, source in zip(pictures, sources, strict=True)]


def _frames(file: Candidate) -> list[int]:
    """The middle slices of the largest stack, or frames spread over a loop."""
    largest = stacks(file.places)[0]
    if Issue.NO_GEOMETRY in largest.issues:
        chosen = evenly(len(largest.order), FRAMES_PER_FILE, margin=0.0)[:FRAMES_PER_FILE]
    else:
        chosen = evenly(len(largest.order), SLICES_PER_SERIES)[:SLICES_PER_SERIES]
    return sorted(largest.order[index] for index in chosen)


def _frame_faces(dataset: FileDataset, file: Candidate, frames: Sequence[int]) -> NDArray[np.bool_] | None:
    """The face of a head volume in one file. Loops without places give too few frames to show one."""
    if len(file.places) < VOLUME_SLICES or None in file.places:
        return None
    slices = ((place, decode_frames(dataset, [index]).frames[0]) for index, place in enumerate(file.places))
    plane = face_plane(slices, dataset)
    if plane is None:
        return None
    return np.stack([plane.mask(place) for frame in frames if (place := file.places[frame]) is not None])
