"""Classification: two classes fabricated on real views, labelled exemplars public; balanced accuracy above chance."""

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
    WAVE_CYCLES,
    Array,
    classification,
    field_part,
    without_field,
    without_waves,
)
from stage_bank.tracks._base import SUBMITTED, Fabricated
from stage_bank.tracks._cases import (
    case_files,
    check_condition,
    common_choice,
    common_facets,
    common_options,
    npy,
    read_outputs,
)
from stage_bank.tracks._pixels import Mask, compress, disc, place_discs, view

__all__ = ["ClassificationTrack"]

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


class ClassificationTrack:
    """Tell two classes apart that differ by the sign of one property at one level: bright in class 1."""

    track = Track.CLASSIFICATION
    facets = common_facets(tuple(classification.METHODS))
    options = common_options(tuple(classification.METHODS.values()))

    def right_choice(self, condition: Mapping[str, str]) -> dict[str, str]:
        """See `TrackSpec.right_choice`."""
        return common_choice(classification.METHODS, condition)

    def fabricate(
        self, pictures: Sequence[Picture], condition: Mapping[str, str], rng: np.random.Generator, cases: int
    ) -> Fabricated:
        """See `TrackSpec.fabricate`."""
        check_condition(self.facets, condition)
        files: dict[str, bytes] = {}
        labels = _balanced(EXEMPLARS, rng)
        for index, signs in enumerate(_signs(labels, condition, rng), start=1):
            files[f"exemplars/exemplar{index}.npy"] = npy(_view(pictures, signs, rng))
        named = {f"exemplar{index}": label for index, label in enumerate(labels, start=1)}
        files["exemplars/labels.json"] = canonical_json(named)
        truth = _balanced(cases, rng)
        for index, signs in enumerate(_signs(truth, condition, rng), start=1):
            files |= case_files(f"case{index}", _view(pictures, signs, rng), condition, rng, labels=True)
        hidden = {f"case{index}": label for index, label in enumerate(truth, start=1)}
        return Fabricated(files, {"truth.json": canonical_json(hidden)})

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


def _signs(labels: Sequence[int], condition: Mapping[str, str], rng: np.random.Generator) -> list[Signs]:
    """The sign of every property in every view.

    The property of the condition has the class's sign. Every other one is bright in half of each class, so that it
    tells nothing about the class, not even by accident.
    """
    table: list[Signs] = [{} for _ in labels]
    for kind in classification.METHODS:
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
