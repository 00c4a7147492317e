"""Which images show a head, by what their header says, and where each slice lies in the patient."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray
from pydicom.dataset import Dataset

from stage_bank.deidentify.allowlists import vocabulary

__all__ = ["Shown", "Slice", "shown", "slices_of"]

_TOMOGRAPHIC = frozenset({"CT", "MR", "PT"})
_PARTS = vocabulary("head_part")
_OTHER_PARTS = vocabulary("other_part")
_TEXTS = (
    "BodyPartExamined", "StudyDescription", "SeriesDescription", "ProtocolName", "RequestedProcedureDescription",
    "PerformedProcedureStepDescription", "ReasonForTheRequestedProcedure",
)  # fmt: skip
_WORDS = re.compile(
    r"head|brain|skull|crani|cereb|enceph|neuro|face|facial|orbit|sinus|kopf|sch(ae|ä)del|hirn|gesicht|t[eê]te|cerveau|"
    r"cabeza|testa|mprage|dental|mandib|maxill|pituit|temporal bone|iac\b|nasal",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Slice:
    """Where a slice lies, in mm (PS3.3 C.7.6.2.1.1).

    Args:
        position: centre of the first pixel.
        across: direction of rising columns, unit vector.
        down: direction of rising rows, unit vector.
        spacing: between rows, between columns.
        rows: number of rows.
        columns: number of columns.
    """

    position: NDArray[np.float64]
    across: NDArray[np.float64]
    down: NDArray[np.float64]
    spacing: tuple[float, float]
    rows: int
    columns: int

    @property
    def key(self) -> float:
        """Distance along the normal, to a tenth of a millimetre."""
        return round(float(self.position @ np.cross(self.across, self.down)), 1)

    def coordinates(self, step: int = 1) -> NDArray[np.float64]:
        """Patient coordinates of every `step`-th pixel, `[3, rows, columns]`."""
        rows = np.arange(0, self.rows, step) * self.spacing[0]
        columns = np.arange(0, self.columns, step) * self.spacing[1]
        return np.asarray(
            self.position[:, None, None]
            + self.down[:, None, None] * rows[None, :, None]
            + self.across[:, None, None] * columns[None, None, :]
        )


class Shown(StrEnum):
    """What a series shows, by its header."""

    HEAD = "head"
    PERHAPS = "perhaps a head"
    OTHER = "something else"


def shown(headers: Iterable[Dataset]) -> Shown:
    """Whether a series shows a head; an unnamed body part perhaps does, so that nothing slips through.

    Only cross-sections are meant. Words in descriptions decide before the body part, which is often a default.
    """
    headers = list(headers)
    if not any(header.get("Modality") in _TOMOGRAPHIC for header in headers):
        return Shown.OTHER
    parts = {str(header.get("BodyPartExamined") or "").strip().upper() for header in headers}
    texts = (str(header.get(keyword) or "") for header in headers for keyword in _TEXTS)
    if parts & _PARTS or any(_WORDS.search(text) for text in texts):
        return Shown.HEAD
    return Shown.OTHER if parts <= _OTHER_PARTS else Shown.PERHAPS


def slices_of(dataset: Dataset, frames: Sequence[int]) -> list[Slice | None]:
    """The geometry of the chosen frames; `None` for a frame whose header does not give it."""
    shared = _first(dataset.get("SharedFunctionalGroupsSequence"))
    groups = dataset.get("PerFrameFunctionalGroupsSequence")
    found = []
    for index in frames:
        own = groups[index] if groups is not None and index < len(groups) else Dataset()
        found.append(_slice(dataset, own, shared))
    return found


def _slice(dataset: Dataset, own: Dataset, shared: Dataset) -> Slice | None:
    try:
        position = _vector(_find("PlanePositionSequence", "ImagePositionPatient", dataset, own, shared), 3)
        orientation = _vector(_find("PlaneOrientationSequence", "ImageOrientationPatient", dataset, own, shared), 6)
        spacing = _vector(_find("PixelMeasuresSequence", "PixelSpacing", dataset, own, shared), 2)
        rows, columns = int(dataset.Rows), int(dataset.Columns)
    except (AttributeError, TypeError, ValueError):
        return None
    across, down = orientation[:3], orientation[3:]
    lengths = np.linalg.norm(across), np.linalg.norm(down)
    if spacing.min() <= 0 or abs(lengths[0] - 1) > 0.01 or abs(lengths[1] - 1) > 0.01 or abs(across @ down) > 0.01:
        return None
    return Slice(position, across, down, (float(spacing[0]), float(spacing[1])), rows, columns)


def _find(group: str, keyword: str, dataset: Dataset, own: Dataset, shared: Dataset) -> object:
    for place in (own, shared):
        value = _first(place.get(group)).get(keyword)
        if value is not None:
            return value
    return dataset.get(keyword)


def _first(sequence: object) -> Dataset:
    return sequence[0] if sequence and isinstance(sequence[0], Dataset) else Dataset()  # type: ignore[index]


def _vector(value: object, length: int) -> NDArray[np.float64]:
    vector = np.array([float(number) for number in value], dtype=np.float64)  # type: ignore[attr-defined]
    if vector.shape != (length,) or not np.isfinite(vector).all():
        raise ValueError("not a vector of that length")
    return vector
