"""Enhancement: real views with one seeded artefact to remove; SSIM relative to the frozen reference pipeline.

The clean form of a view, without noise, blots, stripes or shading, is known by construction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from common.stages import Track
from stage_bank.picture import Picture
from stage_bank.skills import COLUMNS, ROWS, SKILLS, WAVE_CYCLES, Array, field_part, without_field, without_waves
from stage_bank.skills.enhancement import NOISE
from stage_bank.tracks._base import Condition, Fabricated, Outputs, TrackSpec
from stage_bank.tracks._cases import case_files, each
from stage_bank.tracks._pixels import compress, view
from stage_bank.tracks._restoration import gain, restoration_references

__all__ = ["TRACK"]

SKILL = SKILLS["enhancement"]

BLOT_DENSITY = {"1": 0.09, "2": 0.04, "3": 0.022}
"""Level to blots a pixel; their area is the level squared."""


def _make(
    pictures: Sequence[Picture], condition: Condition, rng: np.random.Generator, names: Sequence[str]
) -> Fabricated:
    files: dict[str, bytes] = {}
    references: dict[str, bytes] = {}
    for name in names:
        clean = _clean(pictures, rng)
        spoilt = _spoil(clean, condition["kind"], condition["level"], rng)
        files |= case_files(name, spoilt, condition, rng, SKILL)
        references |= restoration_references(name, clean, files, condition, SKILL)
    return Fabricated(files, references)


def _grade(outputs: Outputs, references: Mapping[str, bytes]) -> dict[str, float | None]:
    return each(outputs, lambda name, output: gain(output, name, references))


def _clean(pictures: Sequence[Picture], rng: np.random.Generator) -> Array:
    """A view between 0.25 and 0.7 without the slow fields and column waves that the artefacts use."""
    image = compress(view(pictures, rng, 0.7), 0.25, 0.7)
    for _ in range(3):
        image = np.exp(without_field(np.log(np.clip(image, 0.15, 0.8))))
        image = without_waves(image * (0.7 / image.max()))
    return np.clip(image, 0.15, 0.75)


def _spoil(clean: Array, kind: str, level: str, rng: np.random.Generator) -> Array:
    if kind == "gaussian":
        return clean + rng.normal(0.0, NOISE[level], clean.shape)
    if kind == "impulse":
        return _blot(clean, int(level), BLOT_DENSITY[level], rng)
    if kind == "stripe":
        phase = 2 * np.pi * (WAVE_CYCLES[level] * np.arange(COLUMNS) / COLUMNS + rng.random())
        return clean + rng.uniform(0.09, 0.12) * np.cos(phase)[None, :]
    direction = rng.normal(size=3)
    band = direction / np.linalg.norm(direction) * rng.uniform(0.55, 0.7)
    return clean * np.exp(field_part(clean.shape, level, band))


def _blot(clean: Array, side: int, density: float, rng: np.random.Generator) -> Array:
    """Squares of dead (0) and hot (1) pixels that do not touch."""
    spoilt, taken = clean.copy(), np.zeros(clean.shape, dtype=bool)
    for _ in range(int(density * clean.size)):
        top, left = int(rng.integers(ROWS - side + 1)), int(rng.integers(COLUMNS - side + 1))
        around = (slice(max(top - 1, 0), top + side + 1), slice(max(left - 1, 0), left + side + 1))
        if not taken[around].any():
            spot = (slice(top, top + side), slice(left, left + side))
            taken[spot], spoilt[spot] = True, float(rng.integers(2))
    return spoilt


TRACK = TrackSpec(Track.ENHANCEMENT, SKILL, _make, _grade)
