"""Enhancement: real views with one seeded artefact to remove; SSIM relative to the frozen reference pipeline."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np

from common.canonical import canonical_json
from common.stages import Track
from rubrics.metrics import relative_gain, ssim
from stage_bank.picture import Picture
from stage_bank.skills import (
    COLUMNS,
    ROWS,
    WAVE_CYCLES,
    Array,
    Output,
    decode,
    enhancement,
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
    loaded,
    npy,
    read_outputs,
)
from stage_bank.tracks._pixels import compress, view

__all__ = ["EnhancementTrack"]

BLOT_DENSITY = {"1": 0.09, "2": 0.04, "3": 0.022}
"""Level to blots a pixel; their area is the level squared."""


class EnhancementTrack:
    """Remove noise, blots, stripes or shading from a view whose clean form is known by construction."""

    track = Track.ENHANCEMENT
    facets = common_facets(tuple(enhancement.METHODS))
    options = common_options(tuple(enhancement.METHODS.values()))

    def right_choice(self, condition: Mapping[str, str]) -> dict[str, str]:
        """See `TrackSpec.right_choice`."""
        return common_choice(enhancement.METHODS, condition)

    def fabricate(
        self, pictures: Sequence[Picture], condition: Mapping[str, str], rng: np.random.Generator, cases: int
    ) -> Fabricated:
        """See `TrackSpec.fabricate`."""
        check_condition(self.facets, condition)
        choice = self.right_choice(condition)
        files: dict[str, bytes] = {}
        references: dict[str, bytes] = {}
        for index in range(1, cases + 1):
            name = f"case{index}"
            clean = _clean(pictures, rng)
            files |= case_files(name, _spoil(clean, condition["kind"], condition["level"], rng), condition, rng)
            untouched = loaded(files, name, condition)
            best = enhancement.process(untouched, choice["method"], choice["level"])
            scale = {"untouched": ssim(np.clip(untouched, 0, 1), clean), "reference": ssim(best, clean)}
            references[f"{name}/clean.npy"] = npy(clean)
            references[f"{name}/scale.json"] = canonical_json(scale)
        return Fabricated(files, references)

    def score(
        self,
        outputs: Mapping[str, bytes],
        files: Mapping[str, bytes],
        references: Mapping[str, bytes],
        folder: str = SUBMITTED,
    ) -> dict[str, float | None]:
        """See `TrackSpec.score`."""
        found = read_outputs(self.track, outputs, files, folder)
        return {name: None if output is None else _score(output, name, references) for name, output in found.items()}


def _score(output: Output, name: str, references: Mapping[str, bytes]) -> float | None:
    clean = decode(Track.ENHANCEMENT, references[f"{name}/clean.npy"])
    if output.shape != clean.shape:
        return None
    scale = json.loads(references[f"{name}/scale.json"])
    if scale["reference"] <= scale["untouched"]:
        return 0.0
    return relative_gain(ssim(output, clean), scale["untouched"], scale["reference"])


def _clean(pictures: Sequence[Picture], rng: np.random.Generator) -> Array:
    """A view between 0.25 and 0.7 without the slow fields and column waves that the artefacts use."""
    image = compress(view(pictures, rng, 0.7), 0.25, 0.7)
    for _ in range(3):
        image = np.exp(without_field(np.log(np.clip(image, 0.15, 0.8))))
        image = without_waves(image * (0.7 / image.max()))
    return np.clip(image, 0.15, 0.75)


def _spoil(clean: Array, kind: str, level: str, rng: np.random.Generator) -> Array:
    if kind == "gaussian":
        return clean + rng.normal(0.0, enhancement.NOISE[level], clean.shape)
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
