"""Seeded faults: how a right case is spoilt so that `stage_bank.skills.faults` finds and mends it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from common.canonical import Json, canonical_json
from stage_bank.skills import COLUMNS, LABEL_MAP, NOMINAL_SPACING, ROWS, SPARE, Array, encode_image

__all__ = ["FAULT_SEEDS", "Stored", "stated_for"]

STORED_SLOPE = 0.001
"""RescaleSlope of a case with the scale fault: pixels are stored a thousand times too large."""

MISSING = 0.025
"""Share of pixels that the nan fault loses."""

PADDING = (2, 9)
"""Fewest rows or columns that the shape fault adds, and one more than the most."""


@dataclass(frozen=True)
class Stored:
    """A case before it is written.

    Args:
        pixels: [rows, columns] as stored.
        header: public header fields.
        kept: share of the image file that arrived; below 1 there is a spare copy beside it.
    """

    pixels: Array
    header: Mapping[str, Json]
    kept: float = 1.0

    def files(self) -> dict[str, bytes]:
        """File name to content."""
        image = encode_image(self.pixels)
        files = {"image.npy": image[: int(self.kept * len(image))], "header.json": canonical_json(self.header)}
        return files if self.kept == 1.0 else {**files, SPARE: image}

    def having(self, **fields: Json) -> Mapping[str, Json]:
        """The header with some fields changed."""
        return {**self.header, **fields}


def stated_for(pixels: Array, faults: tuple[str, ...]) -> dict[str, Json]:
    """The header fields, beside those that every case has, from which the faults of a track can be told."""
    fields: dict[str, Json] = {}
    if "spacing" in faults:
        fields["PixelSpacing"] = list(NOMINAL_SPACING)
    if "invert" in faults:
        fields["SmallestImagePixelValue"] = round(float(pixels.min()), 4)
        fields["LargestImagePixelValue"] = round(float(pixels.max()), 4)
    if "labels" in faults:
        fields["LabelMap"] = dict(LABEL_MAP)
    return fields


def _corrupt(case: Stored, rng: np.random.Generator) -> Stored:
    return replace(case, kept=float(rng.uniform(0.2, 0.9)))


def _spacing(case: Stored, rng: np.random.Generator) -> Stored:
    """Every pixel twice, down or across, on half the spacing."""
    axis = int(rng.integers(2))
    spacing = [side / 2 if axis == index else side for index, side in enumerate(NOMINAL_SPACING)]
    return Stored(np.repeat(case.pixels, 2, axis=axis), case.having(PixelSpacing=spacing))


def _shape(case: Stored, rng: np.random.Generator) -> Stored:
    """Empty rows below and columns to the right."""
    below, right = (int(count) for count in rng.integers(*PADDING, size=2))
    return replace(case, pixels=np.pad(case.pixels, ((0, below), (0, right))))


def _nan(case: Stored, rng: np.random.Generator) -> Stored:
    pixels = np.where(rng.random(case.pixels.shape) < MISSING, np.nan, case.pixels)
    pixels[ROWS // 2, COLUMNS // 2] = np.nan
    return replace(case, pixels=pixels)


def _labels(case: Stored, rng: np.random.Generator) -> Stored:
    names = list(LABEL_MAP.values())
    return replace(case, header=case.having(LabelMap=dict(zip(LABEL_MAP, reversed(names), strict=True))))


FAULT_SEEDS: Mapping[str, Callable[[Stored, np.random.Generator], Stored]] = {
    "none": lambda case, rng: case,
    "corrupt": _corrupt,
    "spacing": _spacing,
    "axes": lambda case, rng: replace(case, pixels=case.pixels.T),
    "shape": _shape,
    "nan": _nan,
    "scale": lambda case, rng: Stored(case.pixels / STORED_SLOPE, case.having(RescaleSlope=STORED_SLOPE)),
    "invert": lambda case, rng: replace(case, pixels=1.0 - case.pixels),
    "labels": _labels,
}
"""Fault to what spoils a right case with it."""
