"""Classification: two classes fabricated on real views, labelled exemplars public; balanced accuracy above chance."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np
from scipy import ndimage

from common.canonical import canonical_json
from common.stages import Track
from rubrics.metrics import above_chance, balanced_accuracy
from stage_bank.skills import COLUMNS, ROWS, WAVE_CYCLES, Array, classification, field_part
from stage_bank.tracks._base import SUBMITTED, Fabricated, Image
from stage_bank.tracks._cases import (
    case_files,
    check_condition,
    common_choice,
    common_facets,
    common_options,
    npy,
    read_outputs,
)
from stage_bank.tracks._pixels import compress, disc, place_discs, view, without_field, without_waves

__all__ = ["ClassificationTrack"]

EXEMPLARS = 8
"""Public labelled exemplars, half of each class."""

DISC_RADII = {"1": 4.0, "2": 7.0, "3": 10.0}
"""Level to lesion radius in pixels; every view holds one lesion of each size, only one size tells the class."""

GRAINS = {"1": 60, "2": 35, "3": 20}
"""Level to the number of grains in a view; their side is the level in pixels."""


class ClassificationTrack:
    """Tell two classes apart that differ by the sign of one property: class 1 has it bright, class 0 dark."""

    track = Track.CLASSIFICATION
    facets = common_facets(tuple(classification.METHODS))
    options = common_options(tuple(classification.METHODS.values()))

    def right_choice(self, condition: Mapping[str, str]) -> dict[str, str]:
        """See `TrackSpec.right_choice`."""
        return common_choice(classification.METHODS, condition)

    def fabricate(
        self, images: Sequence[Image], condition: Mapping[str, str], rng: np.random.Generator, cases: int
    ) -> Fabricated:
        """See `TrackSpec.fabricate`."""
        check_condition(self.facets, condition)
        kind, level = condition["kind"], condition["level"]
        files: dict[str, bytes] = {}
        labels: dict[str, int] = {}
        for index, label in enumerate(_balanced(EXEMPLARS, rng), start=1):
            files[f"exemplars/exemplar{index}.npy"] = npy(_view(images, kind, level, label, rng))
            labels[f"exemplar{index}"] = label
        files["exemplars/labels.json"] = canonical_json(labels)
        truth: dict[str, int] = {}
        for index, label in enumerate(_balanced(cases, rng), start=1):
            truth[f"case{index}"] = label
            pixels = _view(images, kind, level, label, rng)
            files |= case_files(f"case{index}", pixels, condition, rng, labels=True)
        return Fabricated(files, {"truth.json": canonical_json(truth)})

    def score(
        self,
        outputs: Mapping[str, bytes],
        files: Mapping[str, bytes],
        references: Mapping[str, bytes],
        folder: str = SUBMITTED,
    ) -> dict[str, float | None]:
        """See `TrackSpec.score`. Accuracy belongs to the set: every valid case carries the score of all answers given.

        In `PILOT`, where not every case is answered, only the answered ones are judged.
        """
        truth: dict[str, int] = json.loads(references["truth.json"])
        found = read_outputs(self.track, outputs, files, folder)
        answers = {name: None if output is None else int(output) for name, output in found.items()}
        judged = [name for name in answers if folder == SUBMITTED or answers[name] is not None]
        if not judged:
            return dict.fromkeys(answers)
        score = above_chance(balanced_accuracy([answers[name] for name in judged], [truth[name] for name in judged]))
        return {name: None if answer is None else score for name, answer in answers.items()}


def _balanced(count: int, rng: np.random.Generator) -> list[int]:
    """Labels 0 and 1 in equal numbers (one more of class 1 when odd), in random order."""
    return [int(label) for label in rng.permutation([index % 2 == 0 for index in range(count)])]


def _view(images: Sequence[Image], kind: str, level: str, label: int, rng: np.random.Generator) -> Array:
    """A calm view with the property of its class."""
    sign = 1.0 if label else -1.0
    image = compress(view(images, rng, 1.5), 0.42, 0.58)
    image = without_waves(without_field(without_waves(without_field(image))))
    if kind == "banding":
        phase = 2 * np.pi * WAVE_CYCLES[level] * np.arange(COLUMNS) / COLUMNS
        image = image + sign * 0.08 * np.cos(phase)[None, :]
    elif kind == "tilt":
        image = image + sign * field_part(image.shape, level, np.array([0.09, 0.09, 0.0]))
    elif kind == "lesion":
        image = image + _lesions(level, sign, rng)
    else:
        image = image + sign * _grains(int(level), GRAINS[level], rng)
    return np.clip(image, 0.0, 1.0)


def _lesions(level: str, sign: float, rng: np.random.Generator) -> Array:
    """One disc of each size; the level's has the class's sign, the others a random one."""
    order = sorted(DISC_RADII, key=lambda name: -DISC_RADII[name])
    added = np.zeros((ROWS, COLUMNS))
    for name, centre in zip(order, place_discs([DISC_RADII[name] for name in order], rng, gap=2.0), strict=True):
        shade = sign if name == level else float(rng.choice([-1.0, 1.0]))
        added += shade * 0.25 * disc(centre, DISC_RADII[name])
    blurred: Array = ndimage.gaussian_filter(added, 0.4)
    return blurred


def _grains(side: int, count: int, rng: np.random.Generator) -> Array:
    """Squares of 0.25 that do not touch."""
    added = np.zeros((ROWS, COLUMNS))
    for _ in range(count):
        top, left = int(rng.integers(ROWS - side + 1)), int(rng.integers(COLUMNS - side + 1))
        if not added[max(top - 1, 0) : top + side + 1, max(left - 1, 0) : left + side + 1].any():
            added[top : top + side, left : left + side] = 0.25
    return added
