"""Segmentation: `organ.nii.gz` and `lesion.nii.gz`, or one map of classes; Dice."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean

import nibabel
import numpy as np
import numpy.typing as npt

from common.errors import DataError
from rubrics.metrics import dice
from server.automedbench.files import CASE_BYTES, CaseFiles, InvalidOutput, inflate
from server.automedbench.task import Graded, Task

__all__ = ["TASK"]

Volume = npt.NDArray[np.int64]

ORGAN, LESION = "organ", "lesion"
ENDINGS = (".nii.gz", ".nii")
DECISION = "agents_decision.csv"
VOXELS = 1 << 28
"""Most voxels of a map."""
VOXEL_BYTES, HEADER_BYTES = 16, 1 << 20
"""Most bytes of a voxel, and of a header with its extensions."""


@dataclass(frozen=True)
class _Masks:
    """What one case holds.

    Args:
        organ: binary, or `None` in the layout with one map.
        lesion: binary; `None` where the reference has none.
        classes: one map of classes, or `None` in the layout with two masks.
        decision: whether the agent says that there is a lesion, or `None`.
    """

    organ: Volume | None = None
    lesion: Volume | None = None
    classes: Volume | None = None
    decision: bool | None = None


def _there(output: Mapping[str, bytes], reference: Mapping[str, bytes]) -> bool:
    if _named(reference, ORGAN) is None:
        return any(name.endswith(ENDINGS) for name in output)
    wanted = (ORGAN, LESION) if _named(reference, LESION) is not None else (ORGAN,)
    return all(_named(output, name) is not None for name in wanted)


def _named(files: Mapping[str, bytes], stem: str) -> bytes | None:
    return next((files[stem + ending] for ending in ENDINGS if stem + ending in files), None)


def _read(case: CaseFiles) -> tuple[_Masks, _Masks]:
    organ, lesion = _named(case.reference, ORGAN), _named(case.reference, LESION)
    if organ is None:
        return _read_classes(case)
    truth = _Masks(organ=_present(organ), lesion=None if lesion is None else _present(lesion))
    given = _Masks(
        organ=_mask(_named(case.output, ORGAN), truth.organ, ORGAN),
        lesion=None if truth.lesion is None else _mask(_named(case.output, LESION), truth.lesion, LESION),
        decision=_decision(case.output.get(DECISION)),
    )
    return given, truth


def _read_classes(case: CaseFiles) -> tuple[_Masks, _Masks]:
    names = [name for name in case.reference if name.endswith(ENDINGS)]
    if len(names) != 1:
        raise DataError(f"a reference case needs organ.nii.gz or one map of classes, not {len(names)} maps")
    truth = _truth(case.reference[names[0]])
    maps = [name for name in case.output if name.endswith(ENDINGS)]
    name = names[0] if names[0] in maps else maps[0] if len(maps) == 1 else None
    if name is None:
        raise InvalidOutput(f"{len(maps)} maps, and none is called {names[0]}")
    return _Masks(classes=_given(case.output[name], truth, name)), _Masks(classes=truth)


def _truth(data: bytes) -> Volume:
    try:
        return _volume(data, "reference")
    except InvalidOutput as error:
        raise DataError(f"a reference map cannot be read: {error}") from error


def _present(data: bytes) -> Volume:
    return (_truth(data) > 0).astype(np.int64)


def _mask(data: bytes | None, truth: Volume | None, name: str) -> Volume:
    if data is None or truth is None:
        raise InvalidOutput(f"no {name} mask")
    mask = _given(data, truth, name)
    if not np.isin(mask, (0, 1)).all():
        raise InvalidOutput(f"{name} mask is not binary")
    return mask


def _given(data: bytes, truth: Volume, name: str) -> Volume:
    """A map of the agent, which may inflate to what a map of the truth's shape can need and no more."""
    volume = _volume(data, name, HEADER_BYTES + VOXEL_BYTES * truth.size)
    if volume.shape != truth.shape:
        raise InvalidOutput(f"{name} has shape {volume.shape}, the input {truth.shape}")
    return volume


def _volume(data: bytes, name: str, most: int = CASE_BYTES) -> Volume:
    """Whole numbers of a NIfTI file on its voxel grid, as stored: the affine turns nothing; trailing axes of length 1
    do not count.

    Args:
        data: the file.
        name: for messages.
        most: bytes that it may inflate to.

    Raises:
        InvalidOutput: not NIfTI, damaged, too large, or values that are no whole numbers.
    """
    try:
        image = nibabel.Nifti1Image.from_bytes(inflate(data, most))
        if np.prod(image.shape, dtype=float) > VOXELS:
            raise InvalidOutput(f"{name} has too many voxels")
        values = np.asarray(image.dataobj)
    except InvalidOutput:
        raise
    except Exception as error:  # nibabel raises many types on hostile files
        raise InvalidOutput(f"{name} is not a NIfTI file that can be read") from error
    if values.dtype.kind not in "biuf" or not np.isfinite(values).all() or not (values == np.rint(values)).all():
        raise InvalidOutput(f"{name} holds values that are no whole numbers")
    if np.abs(values).max(initial=0) > 1 << 31:
        raise InvalidOutput(f"{name} holds values that are no labels")
    while values.ndim > 2 and values.shape[-1] == 1:
        values = values[..., 0]
    return values.astype(np.int64)


def _decision(data: bytes | None) -> bool | None:
    if data is None:
        return None
    try:
        rows = list(csv.DictReader(io.StringIO(data[:65536].decode("utf-8"))))
        return bool(int(rows[0]["lesion_present"]))
    except (ValueError, KeyError, IndexError, TypeError, csv.Error):
        return None


def _grade(cases: Mapping[str, tuple[_Masks, _Masks]]) -> Graded:
    if any(truth.classes is not None for _, truth in cases.values()):
        return _grade_classes(cases)
    rows = {name: _overlaps(given, truth) for name, (given, truth) in cases.items()}
    organs = [row["organ_dice"] for row in rows.values() if row["organ_dice"] is not None]
    lesions = [row["lesion_dice"] for row in rows.values() if row["lesion_dice"] is not None]
    parts = [fmean(values) for values in (lesions, organs) if values]
    decided = [row["decision_right"] for row in rows.values() if row["decision_right"] is not None]
    means = {
        "organ_dice": fmean(organs) if organs else None,
        "lesion_dice": fmean(lesions) if lesions else None,
        "decision_accuracy": fmean(decided) if decided else None,
    }
    return Graded(fmean(parts) if parts else 0.0, means, rows)


def _overlaps(given: _Masks, truth: _Masks) -> dict[str, float | None]:
    """Organ Dice, and lesion Dice where there is a lesion."""
    lesion = None
    if given.lesion is not None and truth.lesion is not None and truth.lesion.any():
        lesion = dice(given.lesion, truth.lesion)
    right = None
    if given.decision is not None and truth.lesion is not None:
        right = float(given.decision == bool(truth.lesion.any()))
    organ = dice(given.organ, truth.organ) if given.organ is not None and truth.organ is not None else None
    return {"organ_dice": organ, "lesion_dice": lesion, "decision_right": right}


def _grade_classes(cases: Mapping[str, tuple[_Masks, _Masks]]) -> Graded:
    """Mean Dice over the classes that a case's reference has; a reference without any wants an empty map."""
    rows: dict[str, dict[str, float | None]] = {}
    for name, (given, truth) in cases.items():
        if given.classes is None or truth.classes is None:
            raise DataError("cases of the reference differ in their layout", where=name)
        labels = [int(label) for label in np.unique(truth.classes) if label != 0]
        each = {f"dice_{label}": dice(given.classes == label, truth.classes == label) for label in labels}
        mean = fmean(each.values()) if each else float(not given.classes.any())
        rows[name] = {**each, "mean_dice": mean}
    means = [row["mean_dice"] or 0.0 for row in rows.values()]
    return Graded(fmean(means) if means else 0.0, {"mean_dice": fmean(means) if means else None}, rows)


TASK = Task(
    name="segmentation",
    wanted="organ.nii.gz and lesion.nii.gz, or one map of classes",
    there=_there,
    read=_read,
    grade=_grade,
    methods=(
        "u-net", "unet", "nnu-net", "nnunet", "segresnet", "swin", "totalsegmentator", "medsam", "sam", "vista",
        "threshold", "region growing", "watershed", "otsu", "atlas", "deeplab", "k-means",
    ),
)  # fmt: skip
