"""Reports: findings, irregular in one way, whose density only the image shows; text against the right report.

The score of a report is half ROUGE-L, half the F1 of its lines as entities, from what the findings as they stand are
worth (0) to the right report (1).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from common.canonical import Json, canonical_json
from common.stages import Track
from rubrics.metrics import entity_f1, relative_gain, rouge_l, words_of
from stage_bank.picture import Picture
from stage_bank.skills import COLUMNS, ROWS, SKILLS, Array
from stage_bank.skills.report import (
    ABBREVIATIONS,
    FINDINGS,
    NAMES,
    NEGATIONS,
    ORDERS,
    SIDES,
    UNITS,
    ZONES,
    Finding,
    in_order,
    lines_of,
)
from stage_bank.tracks._base import Condition, Fabricated, Outputs, TrackSpec
from stage_bank.tracks._cases import case_files, each
from stage_bank.tracks._pixels import compress, disc, view

__all__ = ["TRACK"]

SKILL = SKILLS["report"]

TISSUE = (0.25, 0.45)
"""Darkest and brightest grey value of the tissue."""

SHADE, RADIUS = 0.2, 3.0
"""What a finding adds to the tissue or takes from it, in grey values, and its radius in pixels."""

COUNT, ABSENT = 4, 2
"""Findings of a case, and how many of them are absent."""

SIZES = (4, 31)
"""Smallest size in mm, and one more than the largest; no two of a case are equal."""

JITTER = 4
"""How far, in pixels, a finding lies from the middle of its zone at most."""

Lines = Sequence[str]


def _make(
    pictures: Sequence[Picture], condition: Condition, rng: np.random.Generator, names: Sequence[str]
) -> Fabricated:
    files: dict[str, bytes] = {}
    truth: dict[str, Json] = {}
    kind, level = condition["kind"], condition["level"]
    for name in names:
        order = ORDERS[level] if kind == "order" else str(rng.choice(list(ORDERS.values())))
        right = in_order(_draw(rng), order)
        pixels = _image(compress(view(pictures, rng, 1.5, clear=True), *TISSUE), right, rng)
        given = _irregular(right, kind, level)
        unit = UNITS[level][0] if kind == "units" else "mm"
        content: Json = {"unit": unit, "order": order, "findings": [_row(finding) for finding in given]}
        files |= case_files(name, pixels, condition, rng, SKILL, {FINDINGS: canonical_json(content)})
        lines = lines_of(right, pixels)
        truth[name] = {"lines": list(lines), "untouched": _agreement(lines_of(given, pixels), lines)}
    return Fabricated(files, {"truth.json": canonical_json(truth)})


def _grade(outputs: Outputs, references: Mapping[str, bytes]) -> dict[str, float | None]:
    truth = json.loads(references["truth.json"])
    return each(
        outputs,
        lambda name, lines: relative_gain(_agreement(lines, truth[name]["lines"]), truth[name]["untouched"], 1.0),
    )


def _agreement(lines: Lines, right: Lines) -> float:
    """Half ROUGE-L of the text, half the F1 of its lines as entities."""
    entities, wanted = ([tuple(words_of(line)) for line in text] for text in (lines, right))
    return 0.5 * rouge_l(" ".join(lines), " ".join(right)) + 0.5 * entity_f1(entities, wanted)


def _draw(rng: np.random.Generator) -> list[Finding]:
    """Findings in different places and of different sizes, some of them absent."""
    places = [(side, zone) for side in range(len(SIDES)) for zone in range(len(ZONES))]
    sizes = rng.choice(np.arange(*SIZES), COUNT, replace=False)
    absent = rng.permutation([index < ABSENT for index in range(COUNT)])
    findings = []
    for place, size, missing in zip(rng.permutation(len(places))[:COUNT], sizes, absent, strict=True):
        side, zone = places[place]
        row = round((zone + 0.5) * ROWS / len(ZONES)) + int(rng.integers(-JITTER, JITTER + 1))
        column = round((side + 0.5) * COLUMNS / len(SIDES)) + int(rng.integers(-JITTER, JITTER + 1))
        name = str(rng.choice(NAMES))
        findings.append(Finding(name, SIDES[side], ZONES[zone], float(size), row, column, not missing))
    return findings


def _image(tissue: Array, findings: Sequence[Finding], rng: np.random.Generator) -> Array:
    """The tissue with every finding that is present, brighter or darker; the patient's right is on the left."""
    image = tissue.copy()
    for finding in findings:
        sign = 1.0 if rng.random() < 0.5 else -1.0
        if finding.present:
            image += sign * SHADE * disc((finding.row, finding.column), RADIUS)
    return image


def _irregular(right: Sequence[Finding], kind: str, level: str) -> list[Finding]:
    """Right findings, spoilt in one way."""
    if kind == "units":
        return [replace(finding, size=round(finding.size / UNITS[level][1], 3)) for finding in right]
    if kind == "abbreviations":
        return [_abbreviated(finding, ABBREVIATIONS[level]) for finding in right]
    if kind == "negation":
        return [
            finding if finding.present else replace(finding, name=NEGATIONS[level].format(finding.name), present=True)
            for finding in right
        ]
    return list(reversed(right))


def _abbreviated(finding: Finding, short: Mapping[str, str]) -> Finding:
    return replace(
        finding,
        name=short.get(finding.name, finding.name),
        side=short.get(finding.side, finding.side),
        zone=short.get(finding.zone, finding.zone),
    )


def _row(finding: Finding) -> Json:
    return {
        "finding": finding.name,
        "side": finding.side,
        "zone": finding.zone,
        "size": finding.size,
        "row": finding.row,
        "column": finding.column,
        "present": finding.present,
    }


TRACK = TrackSpec(Track.REPORT, SKILL, _make, _grade)
