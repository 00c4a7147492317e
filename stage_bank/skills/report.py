"""Reports: structured findings and an image to plain lines, once what is irregular in the findings is normalised.

A case holds four findings, each with its place in the image, where it shows brighter or darker than the tissue around
it unless it is absent. One thing is irregular in all of them. Kinds and methods: sizes in another unit (convert),
abbreviated words (expand), absence written into the name (negate), or lines out of the order that is asked for (sort).
The level is the unit, which words are abbreviated, how absence is written, or what the lines are ordered by.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ._words import LEVELS, Array, Measured, SkillError
from .case import Case
from .skill import TrackSkill
from .text_form import Lines, report_form

__all__ = [
    "ABBREVIATIONS",
    "FINDINGS",
    "METHODS",
    "NAMES",
    "NEGATIONS",
    "ORDERS",
    "SIDES",
    "SKILL",
    "UNITS",
    "ZONES",
    "Finding",
    "in_order",
    "lines_of",
]

METHODS = {"units": "convert", "abbreviations": "expand", "negation": "negate", "order": "sort"}
"""Kind to the method that normalises it."""

FINDINGS = "findings.json"
"""File of a case with its findings."""

NAMES = ("nodule", "cavity", "calcification", "effusion", "cyst")
SIDES = ("right", "left")
ZONES = ("upper", "middle", "lower")

UNITS = {"1": ("cm", 10.0), "2": ("in", 25.4), "3": ("um", 0.001)}
"""Level to a unit and how many millimetres it has."""

NEGATIONS = {"1": "no {}", "2": "{} (-)", "3": "{} excluded"}
"""Level to how absence is written into a name."""

ORDERS = {"1": "size", "2": "zone", "3": "side"}
"""Level to what the lines are ordered by: largest first with the absent last; upper first; right first."""

ABBREVIATIONS = {
    "1": {"right": "R", "left": "L"},
    "2": {"upper": "u.", "middle": "m.", "lower": "l."},
    "3": {"nodule": "nod.", "cavity": "cav.", "calcification": "calc.", "effusion": "eff.", "cyst": "cy."},
}
"""Level to the words that are abbreviated: sides, zones or names."""

REACH, AROUND = 2, (5, 7)
"""How far a finding surely reaches, and from where to where the tissue around it lies, in pixels."""

CONTRAST = 0.06
"""Least difference, in grey values, from the tissue around to be called brighter or darker."""


@dataclass(frozen=True)
class Finding:
    """One structured finding.

    Args:
        name: what it is.
        side: of the patient.
        zone: of that side.
        size: in the unit of its case.
        row: its place in the image.
        column: its place in the image.
        present: whether it is there.
    """

    name: str
    side: str
    zone: str
    size: float
    row: int
    column: int
    present: bool


@dataclass(frozen=True)
class _Findings:
    """The findings of a case with the unit of their sizes and the order that is asked for."""

    unit: str
    order: str
    rows: tuple[Finding, ...]

    @classmethod
    def of(cls, case: Case) -> _Findings:
        """Read a case's findings.

        Raises:
            SkillError: there are none that can be read.
        """
        try:
            fields = json.loads(case.extra[FINDINGS])
            rows = tuple(
                Finding(
                    name=str(row["finding"]),
                    side=str(row["side"]),
                    zone=str(row["zone"]),
                    size=float(row["size"]),
                    row=int(row["row"]),
                    column=int(row["column"]),
                    present=bool(row["present"]),
                )
                for row in fields["findings"]
            )
            found = cls(str(fields["unit"]), str(fields["order"]), rows)
        except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
            raise SkillError(f"findings of {case.name} unreadable") from error
        if not rows or not all(np.isfinite(row.size) and abs(row.size) < 1e9 for row in rows):
            raise SkillError(f"findings of {case.name} unreadable")
        return found


def in_order(rows: Sequence[Finding], order: str) -> tuple[Finding, ...]:
    """Findings ordered by one of `ORDERS`; sides and zones that are abbreviated come last."""

    def place(words: Sequence[str], word: str) -> int:
        return words.index(word) if word in words else len(words)

    def key(row: Finding) -> tuple[float, ...]:
        zone, side = place(ZONES, row.zone), place(SIDES, row.side)
        size = -row.size if row.present else 0.0
        return {"size": (size, zone, side), "zone": (zone, side, size)}.get(order, (side, zone, size))

    return tuple(sorted(rows, key=key))


def _density(image: Array, row: int, column: int) -> str:
    """Whether a place is brighter or darker than the tissue around it."""
    down, across = np.ogrid[: image.shape[0], : image.shape[1]]
    distance = np.hypot(down - row, across - column)
    inside, around = distance <= REACH, (distance >= AROUND[0]) & (distance <= AROUND[1])
    if not inside.any() or not around.any():
        return "isodense"
    contrast = float(image[inside].mean() - np.median(image[around]))
    if abs(contrast) < CONTRAST:
        return "isodense"
    return "hyperdense" if contrast > 0 else "hypodense"


def lines_of(rows: Sequence[Finding], image: Array) -> Lines:
    """The report of findings as they are, in their order.

    Args:
        rows: findings with sizes in mm.
        image: in display polarity.
    """
    lines = []
    for row in rows:
        place = f"{row.side} {row.zone} zone"
        if row.present:
            density = _density(image, row.row, row.column)
            lines.append(f"{place}: {density} {row.name}, {row.size:g} mm.")
        else:
            lines.append(f"{place}: no {row.name}.")
    present = sum(row.present for row in rows)
    return (*lines, f"Impression: {present} present, {len(rows) - present} absent.")


def _convert(found: _Findings, level: str) -> _Findings:
    factor = UNITS[level][1]
    return replace(found, rows=tuple(replace(row, size=float(round(row.size * factor))) for row in found.rows))


def _expand(found: _Findings, level: str) -> _Findings:
    full = {short: word for word, short in ABBREVIATIONS[level].items()}

    def expanded(row: Finding) -> Finding:
        if level == "1":
            return replace(row, side=full.get(row.side, row.side))
        if level == "2":
            return replace(row, zone=full.get(row.zone, row.zone))
        return replace(row, name=full.get(row.name, row.name))

    return replace(found, rows=tuple(expanded(row) for row in found.rows))


def _negate(found: _Findings, level: str) -> _Findings:
    absent = {NEGATIONS[level].format(name): name for name in NAMES}

    def negated(row: Finding) -> Finding:
        return replace(row, name=absent[row.name], present=False) if row.name in absent else row

    return replace(found, rows=tuple(negated(row) for row in found.rows))


def _sort(found: _Findings, level: str) -> _Findings:
    return replace(found, rows=in_order(found.rows, ORDERS[level]))


NORMALISERS = {"convert": _convert, "expand": _expand, "negate": _negate, "sort": _sort}


def process(case: Case, method: str, level: str) -> Lines:
    """Normalise the findings of a case in one way, and write them down.

    Raises:
        KeyError: an unknown method or level.
        SkillError: no findings that can be read.
    """
    return lines_of(NORMALISERS[method](_Findings.of(case), level).rows, case.pixels)


def _irregular(found: _Findings) -> Measured:
    """What is irregular in the findings of a case; empty where nothing is."""
    sights: Mapping[str, Mapping[str, bool]] = {
        "units": {level: found.unit == unit for level, (unit, _) in UNITS.items()},
        "abbreviations": {level: _any_of(found, tuple(words.values())) for level, words in ABBREVIATIONS.items()},
        "negation": {
            level: _any_of(found, tuple(text.format(name) for name in NAMES)) for level, text in NEGATIONS.items()
        },
        "order": {
            level: order == found.order and found.rows != in_order(found.rows, order) for level, order in ORDERS.items()
        },
    }
    for kind, levels in sights.items():
        for level in LEVELS:
            if levels[level]:
                return Measured(kind, level)
    return Measured("", "")


def _any_of(found: _Findings, words: tuple[str, ...]) -> bool:
    return any(word in words for row in found.rows for word in (row.name, row.side, row.zone))


def measure(cases: Sequence[Case]) -> Measured:
    """What is irregular in most cases; empty where nothing is."""
    seen = [_irregular(_Findings.of(case)) for case in cases]
    return max(seen, key=seen.count)


def residual(cases: Sequence[Case], method: str, level: str) -> str:
    """What stays irregular after one way of normalising, judged without the right report."""
    seen = measure(cases)
    return seen.kind if seen.kind and (METHODS[seen.kind], seen.level) != (method, level) else ""


SKILL = TrackSkill(
    methods=METHODS,
    form=report_form("report.txt"),
    measure=lambda cases, _: measure(cases),
    process=lambda case, method, level, _: process(case, method, level),
    residual=lambda cases, outputs, method, level, _: residual(cases, method, level),
    faults=("none", "axes", "nan", "invert", "shape", "corrupt"),
)
