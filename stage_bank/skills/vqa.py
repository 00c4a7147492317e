"""Visual questions: markers in real tissue, one question a case, five options, one right answer.

A case shows one to five markers of one shape and one size, one of them brighter than the others. Kinds and methods: how
many markers there are (components), in which part of the image the brightest lies (position), which shape they have
(template), or how wide one is in the patient (ruler: pixels over the magnification that the header states, DICOM PS3.3
C.8.7.10). The level is the size class of the markers; a method of another class does not see them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from scipy import ndimage

from ._words import COLUMNS, LEVELS, ROWS, Array, Measured, SkillError
from .answer_form import LABELS, Answer, answer_form
from .case import Case
from .skill import TrackSkill

__all__ = [
    "MAGNIFICATION",
    "METHODS",
    "PARTS",
    "QUESTION",
    "RADII",
    "SHAPES",
    "SKILL",
    "THRESHOLD",
    "Question",
    "answer_text",
    "millimetres",
    "part_of",
    "shape",
]

METHODS = {"count": "components", "location": "position", "outline": "template", "width": "ruler"}
"""Kind to the method that answers it."""

RADII = {"1": 2, "2": 3, "3": 5}
"""Level to the radius of a marker in pixels; it is twice that and one pixel wide."""

THRESHOLD = 0.27
"""Grey value above which a pixel belongs to a marker."""

SHAPES = ("disc", "square", "ring", "plus", "rhombus")
PARTS = ("upper left", "upper right", "lower left", "lower right", "centre")

CENTRE = (10, 8)
"""How far the centre reaches from the middle of the image, in pixels down and across."""

QUESTION = "question.json"
"""File of a case that asks."""

MAGNIFICATION = "EstimatedRadiographicMagnificationFactor"
"""Header field: how many times larger things are in the image than in the patient (DICOM attribute 0018,1114)."""


@dataclass(frozen=True)
class Question:
    """What a case asks.

    Args:
        name: its identifier.
        kind: what is asked about.
        options: five texts; the label of the first is A.
    """

    name: str
    kind: str
    options: tuple[str, ...]

    @classmethod
    def of(cls, case: Case) -> Question:
        """The question of a case.

        Raises:
            SkillError: there is none that can be read.
        """
        try:
            fields = json.loads(case.extra[QUESTION])
            options = tuple(str(option) for option in fields["options"])
            kind = str(fields["about"])
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise SkillError(f"question of {case.name} unreadable") from error
        if kind not in METHODS or len(options) != len(LABELS):
            raise SkillError(f"question of {case.name} unreadable")
        return cls(str(fields.get("question_id")), kind, options)


@dataclass(frozen=True)
class _Marker:
    """One thing brighter than the tissue.

    Args:
        row: middle of its box.
        column: middle of its box.
        side: larger side of its box in pixels.
        mean: mean grey value.
        pixels: its own box, true where it is.
    """

    row: float
    column: float
    side: int
    mean: float
    pixels: Array


@cache
def shape(name: str, level: str) -> Array:
    """A marker as ones on zeros, a square of its width.

    Raises:
        KeyError: an unknown shape or level.
    """
    radius = RADII[level]
    axis = np.abs(np.arange(-radius, radius + 1))
    down, across = axis[:, None], axis[None, :]
    distance = np.hypot(down, across)
    inside = {
        "disc": distance <= radius + 0.3,
        "square": (down <= radius) & (across <= radius),
        "ring": (distance <= radius + 0.3) & (distance > radius - 1.3),
        "plus": (down <= radius // 3) | (across <= radius // 3),
        "rhombus": down + across <= radius,
    }[name]
    return inside.astype(np.float64)


def part_of(row: float, column: float) -> str:
    """Which part of the image a place lies in, one of `PARTS`."""
    down, across = row - (ROWS - 1) / 2, column - (COLUMNS - 1) / 2
    if abs(down) <= CENTRE[0] and abs(across) <= CENTRE[1]:
        return PARTS[4]
    return f"{'upper' if down < 0 else 'lower'} {'left' if across < 0 else 'right'}"


def millimetres(level: str, magnification: float) -> str:
    """Width of a marker in the patient, to a tenth of a millimetre; pixels are 1 mm wide at the detector."""
    return f"{(2 * RADII[level] + 1) / magnification:.1f}"


def _markers(image: Array) -> list[_Marker]:
    parts, _ = ndimage.label(image > THRESHOLD, structure=np.ones((3, 3)))
    found = []
    for number, box in enumerate(ndimage.find_objects(parts), start=1):
        own = parts[box] == number
        row, column = ((side.start + side.stop - 1) / 2 for side in box)
        found.append(_Marker(row, column, max(own.shape), float(image[box][own].mean()), own.astype(np.float64)))
    return found


def _of_level(markers: Sequence[_Marker], level: str) -> list[_Marker]:
    return [marker for marker in markers if marker.side == 2 * RADII[level] + 1]


def answer_text(case: Case, method: str, level: str) -> str:
    """What one method finds, in the words of the options; empty where it finds no marker of the level's size.

    Raises:
        KeyError: an unknown method or level.
    """
    markers = _of_level(_markers(case.pixels), level)
    if not markers:
        return ""
    brightest = max(markers, key=lambda marker: marker.mean)
    answers: Mapping[str, Any] = {
        "components": lambda: str(len(markers)),
        "position": lambda: part_of(brightest.row, brightest.column),
        "template": lambda: max(SHAPES, key=lambda name: _alike(brightest.pixels, shape(name, level))),
        "ruler": lambda: millimetres(level, _magnification(case)),
    }
    text: str = answers[method]()
    return text


def _alike(found: Array, wanted: Array) -> float:
    """Share of pixels that agree; -1 for another size."""
    return float(np.mean(found == wanted)) if found.shape == wanted.shape else -1.0


def _magnification(case: Case) -> float:
    try:
        factor = float(case.header[MAGNIFICATION])
    except (KeyError, TypeError, ValueError) as error:
        raise SkillError(f"case {case.name} without magnification") from error
    if not 0.1 <= factor <= 100.0:
        raise SkillError(f"case {case.name} without magnification")
    return factor


def process(case: Case, method: str, level: str) -> Answer:
    """Answer the question of a case; no label where what was found is none of the options."""
    question, text = Question.of(case), answer_text(case, method, level)
    label = LABELS[question.options.index(text)] if text in question.options else ""
    return Answer(question.name, label, text)


def measure(cases: Sequence[Case]) -> Measured:
    """What most questions are about, and the size class of most markers; empty where no marker is seen."""
    kinds = [Question.of(case).kind for case in cases]
    seen = [marker for case in cases for marker in _markers(case.pixels)]
    counts = {level: len(_of_level(seen, level)) for level in LEVELS}
    level = max(counts, key=counts.__getitem__)
    return Measured(max(METHODS, key=kinds.count), level) if counts[level] else Measured("", "")


def residual(cases: Sequence[Case], answers: Sequence[Answer], method: str, level: str) -> str:
    """What is asked but was not answered, judged without the right answers; `empty` where nothing was found."""
    seen = measure(cases)
    if seen.kind and METHODS[seen.kind] != method:
        return seen.kind
    return "" if seen.level == level and all(answer.label for answer in answers) else "empty"


SKILL = TrackSkill(
    methods=METHODS,
    form=answer_form("answer.json"),
    measure=lambda cases, _: measure(cases),
    process=lambda case, method, level, _: process(case, method, level),
    residual=lambda cases, outputs, method, level, _: residual(cases, outputs, method, level),
    faults=("none", "axes", "invert", "spacing", "shape", "corrupt"),
)
