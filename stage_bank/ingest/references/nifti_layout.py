"""Which NIfTI files of a folder are images, and which are the masks of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from stage_bank.dicom.reasons import Reason
from stage_bank.dicom.walk import Found, walk
from stage_bank.ingest.report import FileReport, Status

__all__ = ["Case", "Layout", "find_cases"]

_MASK_FOLDERS = {"imagesTr": ("labelsTr",), "imagesTs": ("labelsTs",), "images": ("labels", "masks")}
"""Folder of images to the folders beside it that may hold their masks, under the same name."""
_MASK_NAMES = frozenset(name for names in _MASK_FOLDERS.values() for name in names)
_MASK = re.compile(r"(.+)[_-](?:seg|dseg|mask|labels?)", re.IGNORECASE)
_CHANNEL = re.compile(r"(.+)_(\d{4})")

_CHANNELS = (
    (re.compile(r"ct|ldct|cbct|cect|ncct|cta"), "CT"),
    (re.compile(r"mri?|t1\w*|t2\w*|flair|dwi|adc|pd\w*|swi|bold|dce|epi|cine ?mri?"), "MR"),
    (re.compile(r"pet|pt|fdg|suv"), "PT"),
    (re.compile(r"us|ultrasound"), "US"),
    (re.compile(r"x-?ray|dx|cxr"), "DX"),
)
"""Names of channels, and BIDS suffixes, in lower case, to DICOM's defined terms of a modality."""
_UNKNOWN = "OT"
_MAX_JSON = 64 << 20


@dataclass(frozen=True)
class Case:
    """One image, perhaps one of several channels.

    Args:
        image: its file.
        mask: the file that marks what is real in it; `None` where there is none.
        name: the case, without channel and ending.
        modality: DICOM defined term; `OT` where nothing tells.
        labels: numbers that a mask may hold; `None` where the site declares none.
    """

    image: Found
    mask: Found | None
    name: str
    modality: str
    labels: frozenset[int] | None


@dataclass(frozen=True)
class Layout:
    """What was found.

    Args:
        cases: sorted by path.
        reports: of `dataset.json` files, masks without an image, and files that cannot be opened.
    """

    cases: tuple[Case, ...]
    reports: tuple[FileReport, ...]


def find_cases(folder: Path) -> Layout:
    """Pair images and masks under a folder by their names.

    A mask lies in `labelsTr` or `labelsTs` beside `imagesTr` or `imagesTs` (nnU-Net: the image's name without its
    channel), in `labels` or `masks` beside `images`, or beside its image with `_seg`, `_dseg`, `_mask` or `_label`
    before the ending.
    """
    files: dict[PurePosixPath, Found] = {}
    datasets: dict[PurePosixPath, Found] = {}
    reports = []
    for found in walk(folder):
        path = PurePosixPath(found.name)
        if path.name == "dataset.json" and found.reason is None:
            datasets[path.parent] = found
        elif not path.name.lower().endswith((".nii", ".nii.gz")):
            continue
        elif found.reason is None:
            files[path] = found
        else:
            reports.append(FileReport(found.name, Status.REFUSED, found.reason))
    declared = {}
    for root, found in datasets.items():
        declaration = _Declaration.read(found.path)
        taken = (Status.TAKEN, Reason.REFERENCE) if declaration else (Status.REFUSED, Reason.NIFTI_LAYOUT)
        reports.append(FileReport(found.name, *taken))
        if declaration:
            declared[root] = declaration
    masks = {path: found for path, found in files.items() if _is_mask(path)}
    cases = [_case(path, found, masks, declared) for path, found in files.items() if path not in masks]
    used = {case.mask.name for case in cases if case.mask is not None}
    alone = (found.name for found in masks.values() if found.name not in used)
    reports += [FileReport(name, Status.REFUSED, Reason.REFERENCE_UNUSED) for name in alone]
    return Layout(tuple(sorted(cases, key=lambda case: case.image.name)), tuple(reports))


@dataclass(frozen=True)
class _Declaration:
    """What a `dataset.json` says."""

    channels: Mapping[int, str]
    labels: frozenset[int]

    @classmethod
    def read(cls, path: Path) -> _Declaration | None:
        """`None` when it is damaged or of another form. Versions 1 and 2 of the layout are read."""
        try:
            if path.stat().st_size > _MAX_JSON:
                return None
            document = json.loads(path.read_bytes())
            channels = document["channel_names"] if "channel_names" in document else document["modality"]
            names = {int(number): _modality(str(name)) for number, name in channels.items()}
            return cls(names, frozenset(_numbers(document["labels"])))
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return None


def _numbers(labels: Mapping[str, Any]) -> Iterator[int]:
    """Version 1 maps numbers to names, version 2 names to numbers or, for regions, lists of numbers."""
    for key, value in labels.items():
        if isinstance(value, str) and not value.strip().isdigit():
            yield int(key)
        else:
            yield from (int(number) for number in (value if isinstance(value, list) else [value]))


def _modality(name: str) -> str:
    word = name.strip().lower()
    return next((term for pattern, term in _CHANNELS if pattern.fullmatch(word)), _UNKNOWN)


def _stem(path: PurePosixPath) -> str:
    name = path.name.lower()
    return path.name[: -len(".nii.gz")] if name.endswith(".nii.gz") else path.name[: -len(".nii")]


def _named(folder: PurePosixPath, stem: str, files: Mapping[PurePosixPath, Found]) -> PurePosixPath | None:
    candidates = (folder / f"{stem}{ending}" for ending in (".nii.gz", ".nii"))
    return next((path for path in candidates if path in files), None)


def _is_mask(path: PurePosixPath) -> bool:
    return path.parent.name in _MASK_NAMES or _MASK.fullmatch(_stem(path)) is not None


def _case(
    path: PurePosixPath,
    found: Found,
    masks: Mapping[PurePosixPath, Found],
    declared: Mapping[PurePosixPath, _Declaration],
) -> Case:
    stem, root = _stem(path), path.parent.parent
    declaration = declared.get(root) if path.parent.name in _MASK_FOLDERS else None
    channel = _CHANNEL.fullmatch(stem) if path.parent.name in ("imagesTr", "imagesTs") else None
    name, number = (channel[1], int(channel[2])) if channel else (stem, 0)
    places = [root / folder for folder in _MASK_FOLDERS.get(path.parent.name, ())]
    near = [f"{stem}{joint}{word}" for joint in "_-" for word in ("seg", "dseg", "mask", "label", "labels")]
    wanted = [(place, name) for place in places] + [(path.parent, other) for other in near]
    mask = next((place for pair in wanted if (place := _named(*pair, masks)) is not None), None)
    modality = _modality(stem.rpartition("_")[2]) if declaration is None else declaration.channels.get(number, _UNKNOWN)
    return Case(
        found,
        None if mask is None else masks[mask],
        name,
        modality,
        None if declaration is None else declaration.labels,
    )
