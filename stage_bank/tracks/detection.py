"""Detection: seeded lesions in compressed real tissue, true boxes by construction; mean average precision at 0.5.

No view shows what the site's own reference marks. Precision belongs to the set of cases, so every valid case carries
the score of all boxes given.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np

from common.canonical import canonical_json
from common.stages import Track
from rubrics.metrics import mean_average_precision
from stage_bank.picture import Picture
from stage_bank.skills import LABEL_MAP, SKILLS, Array
from stage_bank.skills.detection import RADII, box_at, lesion
from stage_bank.tracks._base import Condition, Fabricated, Outputs, TrackSpec
from stage_bank.tracks._cases import case_files
from stage_bank.tracks._pixels import compress, place_discs, view

__all__ = ["TRACK"]

SKILL = SKILLS["detection"]

COUNTS = {"1": (1, 5), "2": (1, 4), "3": (1, 3)}
"""Level to the fewest lesions of a view, and one more than the most."""

TISSUE = (0.1, 0.23)
"""Darkest and brightest grey value of the tissue: so dark that inverted intensity shows in the extremes."""

Sides = tuple[float, float, float, float]

CONTRAST = (0.3, 0.42)
"""Range of what a lesion adds, in grey values."""


def _make(
    pictures: Sequence[Picture], condition: Condition, rng: np.random.Generator, names: Sequence[str]
) -> Fabricated:
    files: dict[str, bytes] = {}
    truth: dict[str, list[Sides]] = {}
    for name in names:
        tissue = compress(view(pictures, rng, 1.5, clear=True), *TISSUE)
        pixels, truth[name] = _insert(tissue, condition["kind"], condition["level"], rng)
        files |= case_files(name, pixels, condition, rng, SKILL)
    return Fabricated(files, {"truth.json": canonical_json(truth)})


def _grade(outputs: Outputs, references: Mapping[str, bytes]) -> dict[str, float | None]:
    truth: dict[str, list[Sides]] = json.loads(references["truth.json"])
    label = LABEL_MAP["1"]
    true = [[(label, x1, y1, x2, y2, 1.0) for x1, y1, x2, y2 in truth[name]] for name in outputs]
    score = mean_average_precision([boxes or () for boxes in outputs.values()], true)
    return {name: None if boxes is None else score for name, boxes in outputs.items()}


def _insert(tissue: Array, kind: str, level: str, rng: np.random.Generator) -> tuple[Array, list[Sides]]:
    """Put lesions of a kind and size class into a view; pixels, and the true boxes as x1, y1, x2, y2."""
    shape, radius = lesion(kind, level), RADII[level]
    reach = shape.shape[0] // 2
    image, boxes = tissue.copy(), []
    for row, column in place_discs([float(radius)] * int(rng.integers(*COUNTS[level])), rng, gap=3.0):
        around = (slice(row - reach, row + reach + 1), slice(column - reach, column + reach + 1))
        image[around] += rng.uniform(*CONTRAST) * shape
        boxes.append(box_at(row, column, level))
    return image, boxes


TRACK = TrackSpec(Track.DETECTION, SKILL, _make, _grade, pooled=True)
