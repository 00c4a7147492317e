"""Classification: two classes fabricated on real views, labelled exemplars public; balanced accuracy above chance.

The classes differ by the sign of one property at one level: bright in class 1. Accuracy belongs to the set of cases, so
every valid case carries the score of all answers given.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np

from common.canonical import canonical_json
from common.stages import Track
from rubrics.metrics import above_chance, balanced_accuracy
from stage_bank.picture import Picture
from stage_bank.skills import (
    COLUMNS,
    LEVELS,
    ROWS,
    SKILLS,
    WAVE_CYCLES,
    Array,
    encode_image,
    field_part,
    without_field,
    without_waves,
)
from stage_bank.tracks._base import Condition, Fabricated, Outputs, TrackSpec
from stage_bank.tracks._cases import case_files
from stage_bank.tracks._pixels import Mask, compress, disc, place_discs, view

__all__ = ["TRACK"]

SKILL = SKILLS["classification"]

EXEMPLARS = 8
"""Public labelled exemplars, half of each class."""

DISC_RADII = {"3": 6.5, "2": 4.5, "1": 2.8}
"""Level to lesion radius in pixels, largest first: so they are placed."""

GRAINS = {"3": 12, "2": 16, "1": 24}
"""Level to the number of grains tried in a view, largest first; their side is the level in pixels."""

Signs = dict[tuple[str, str], float]
"""Kind and level to 1 (bright) or -1 (dark)."""

SHADE, WAVE, TILT = 0.3, 0.03, 0.035
"""Amplitudes of grains and lesions, of each column wave and of each slow tilt, in units of the grey range."""


def _make(
    pictures: Sequence[Picture], condition: Condition, rng: np.random.Generator, names: Sequence[str]
) -> Fabricated:
    files: dict[str, bytes] = {}
    labels = _balanced(EXEMPLARS, rng)
    for index, signs in enumerate(_signs(labels, condition, rng), start=1):
        files[f"exemplars/exemplar{index}.npy"] = encode_image(_view(pictures, signs, rng))
    named = {f"exemplar{index}": label for index, label in enumerate(labels, start=1)}
    files["exemplars/labels.json"] = canonical_json(named)
    truth = _balanced(len(names), rng)
    for name, signs in zip(names, _signs(truth, condition, rng), strict=True):
        files |= case_files(name, _view(pictures, signs, rng), condition, rng, SKILL)
    return Fabricated(files, {"truth.json": canonical_json(dict(zip(names, truth, strict=True)))})


def _grade(outputs: Outputs, references: Mapping[str, bytes]) -> dict[str, float | None]:
    truth: dict[str, int] = json.loads(references["truth.json"])
    score = above_chance(balanced_accuracy(list(outputs.values()), [truth[name] for name in outputs]))
    return {name: None if label is None else score for name, label in outputs.items()}


def _balanced(count: int, rng: np.random.Generator) -> list[int]:
    """Labels 0 and 1 in equal numbers (one more of class 1 when odd), in random order."""
    return [int(label) for label in rng.permutation([index % 2 == 0 for index in range(count)])]


def _signs(labels: Sequence[int], condition: Condition, rng: np.random.Generator) -> list[Signs]:
    """The sign of every property in every view.

    The property of the condition has the class's sign. Every other one is bright in half of each class, so that it
    tells nothing about the class, not even by accident.
    """
    table: list[Signs] = [{} for _ in labels]
    for kind in SKILL.methods:
        for level in LEVELS:
            for label in (0, 1):
                members = [view for view, of in zip(table, labels, strict=True) if of == label]
                shades = rng.permutation([1.0 if index % 2 else -1.0 for index in range(len(members))])
                for view_signs, shade in zip(members, shades, strict=True):
                    view_signs[kind, level] = float(shade)
    for view_signs, label in zip(table, labels, strict=True):
        view_signs[condition["kind"], condition["level"]] = 1.0 if label else -1.0
    return table


def _view(pictures: Sequence[Picture], signs: Signs, rng: np.random.Generator) -> Array:
    """A calm view that shows every property at every level, each with its sign.

    So a feature other than the right one answers by chance, and only labelled exemplars tell which one is right.
    """
    image = compress(view(pictures, rng, 1.5), 0.47, 0.53)
    lesions, near = _lesions(signs, rng)
    image = image + lesions + _grains(signs, near, rng)
    for _ in range(3):
        image = without_waves(without_field(image))
    for size in LEVELS:
        phase = 2 * np.pi * WAVE_CYCLES[size] * np.arange(COLUMNS) / COLUMNS
        image = image + signs["banding", size] * WAVE * np.cos(phase)[None, :]
        image = image + field_part(image.shape, size, signs["tilt", size] * TILT * np.array([1.0, 1.0, 0.0]))
    return image


def _lesions(signs: Signs, rng: np.random.Generator) -> tuple[Array, Mask]:
    """One disc of each size; what they add, and the pixels on and next to them."""
    added, near = np.zeros((ROWS, COLUMNS)), np.zeros((ROWS, COLUMNS), dtype=bool)
    centres = place_discs(list(DISC_RADII.values()), rng, gap=2.0)
    for (size, radius), centre in zip(DISC_RADII.items(), centres, strict=True):
        added += signs["lesion", size] * SHADE * disc(centre, radius)
        near |= disc(centre, radius + 1.5)
    return added, near


def _grains(signs: Signs, near: Mask, rng: np.random.Generator) -> Array:
    """Squares of each size that touch neither each other nor a lesion."""
    added, taken = np.zeros((ROWS, COLUMNS)), near.copy()
    for size, count in GRAINS.items():
        side = int(size)
        for _ in range(count):
            top, left = int(rng.integers(ROWS - side + 1)), int(rng.integers(COLUMNS - side + 1))
            if not taken[max(top - 1, 0) : top + side + 1, max(left - 1, 0) : left + side + 1].any():
                spot = (slice(top, top + side), slice(left, left + side))
                taken[spot], added[spot] = True, signs["grain", size] * SHADE
    return added


TRACK = TrackSpec(Track.CLASSIFICATION, SKILL, _make, _grade, pooled=True)
