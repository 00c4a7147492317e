"""Visual questions about markers put into compressed real tissue and a header fact; an answer is right or wrong."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np

from common.canonical import canonical_json
from common.stages import Track
from rubrics.metrics import exact_match
from stage_bank.picture import Picture
from stage_bank.skills import COLUMNS, ROWS, SKILLS, Array, Output
from stage_bank.skills.answer_form import LABELS
from stage_bank.skills.vqa import (
    CENTRE,
    MAGNIFICATION,
    PARTS,
    QUESTION,
    RADII,
    SHAPES,
    millimetres,
    part_of,
    shape,
)
from stage_bank.tracks._base import Condition, Fabricated, Outputs, TrackSpec, UnfitPictures
from stage_bank.tracks._cases import case_files, each
from stage_bank.tracks._pixels import compress, view

__all__ = ["TRACK"]

SKILL = SKILLS["vqa"]

TISSUE = (0.05, 0.2)
"""Darkest and brightest grey value of the tissue."""

SHADE, BRIGHTEST = 0.24, 0.5
"""What a marker adds to the tissue, and what the brightest one adds, in grey values."""

MOST = 5
"""Most markers of a view."""

MAGNIFICATIONS = (1.0, 1.25, 1.6, 2.0, 2.5)

WORDINGS = {
    "count": ("How many markers does the image show?", "Count the markers in the image."),
    "location": ("In which part of the image is the brightest marker?", "Where is the brightest marker?"),
    "outline": ("Which outline do the markers have?", "What is the outline of the markers?"),
    "width": ("How wide is one marker without magnification, in mm?", "What is the true width of a marker, in mm?"),
}

Place = tuple[int, int]


def _make(
    pictures: Sequence[Picture], condition: Condition, rng: np.random.Generator, names: Sequence[str]
) -> Fabricated:
    files: dict[str, bytes] = {}
    truth: dict[str, dict[str, str]] = {}
    for name in names:
        level = condition["level"]
        part, form = str(rng.choice(PARTS)), str(rng.choice(SHAPES))
        magnification, number = float(rng.choice(MAGNIFICATIONS)), int(rng.integers(1, MOST + 1))
        tissue = compress(view(pictures, rng, 1.5, clear=True), *TISSUE)
        pixels = _insert(tissue, shape(form, level), _places(number, part, RADII[level], rng))
        answers = {
            "count": (str(number), [str(count) for count in range(1, MOST + 1)]),
            "location": (part, list(PARTS)),
            "outline": (form, list(SHAPES)),
            "width": (millimetres(level, magnification), [millimetres(level, factor) for factor in MAGNIFICATIONS]),
        }
        right, options = answers[condition["kind"]]
        options = [options[place] for place in rng.permutation(len(options))]
        question = {
            "question_id": f"{name} question",
            "about": condition["kind"],
            "question": str(rng.choice(WORDINGS[condition["kind"]])),
            "options": options,
        }
        stated = {MAGNIFICATION: magnification}
        extra = {QUESTION: canonical_json(question)}
        files |= case_files(name, pixels, condition, rng, SKILL, extra, stated)
        truth[name] = {"question": f"{name} question", "label": LABELS[options.index(right)]}
    return Fabricated(files, {"truth.json": canonical_json(truth)})


def _grade(outputs: Outputs, references: Mapping[str, bytes]) -> dict[str, float | None]:
    truth = json.loads(references["truth.json"])
    return each(outputs, lambda name, answer: _score(answer, **truth[name]))


def _score(answer: Output, question: str, label: str) -> float:
    """1 for the right label of the question that was asked; an answer to another question is worth nothing."""
    return exact_match(answer.label, [label]) if answer.question == question else 0.0


def _insert(tissue: Array, marker: Array, places: Sequence[Place]) -> Array:
    """Markers put into the tissue, the first of them the brightest."""
    image, reach = tissue.copy(), marker.shape[0] // 2
    for index, (row, column) in enumerate(places):
        around = (slice(row - reach, row + reach + 1), slice(column - reach, column + reach + 1))
        image[around] += (SHADE if index else BRIGHTEST) * marker
    return image


def _places(number: int, part: str, radius: int, rng: np.random.Generator) -> list[Place]:
    """Middles of markers that lie inside the image and do not touch; the first lies well within a part of it.

    Raises:
        UnfitPictures: they do not fit.
    """
    margin = radius + 1
    for _ in range(200):
        drawn = [
            (int(rng.integers(margin, ROWS - margin)), int(rng.integers(margin, COLUMNS - margin)))
            for _ in range(number)
        ]
        apart = all(
            max(abs(one[0] - other[0]), abs(one[1] - other[1])) > 2 * radius + 2
            for index, one in enumerate(drawn)
            for other in drawn[:index]
        )
        for first, place in enumerate(drawn if apart else ()):
            if part_of(*place) == part and _well_within(place):
                return [place, *drawn[:first], *drawn[first + 1 :]]
    raise UnfitPictures("the markers do not fit", remedy="draw again")


def _well_within(place: Place) -> bool:
    """Whether a person would not doubt which part of the image it is."""
    away = [abs(at - (size - 1) / 2) for at, size in zip(place, (ROWS, COLUMNS), strict=True)]
    near = all(far <= reach - 2 for far, reach in zip(away, CENTRE, strict=True))
    return near or all(far >= reach + 2 for far, reach in zip(away, CENTRE, strict=True))


TRACK = TrackSpec(Track.VQA, SKILL, _make, _grade)
