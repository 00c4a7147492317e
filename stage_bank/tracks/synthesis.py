"""Synthesis: real views that lost resolution in one of four ways; SSIM relative to the frozen reference pipeline.

Every view is given the radial spectrum of one law first: its structure stays in the signs of the coefficients, and the
loss can be told from the pixels whatever device the picture came from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from scipy import fft

from common.stages import Track
from stage_bank.picture import Picture
from stage_bank.skills import SKILLS, Array
from stage_bank.skills.synthesis import degrade, frequencies, spectrum_law
from stage_bank.tracks._base import Condition, Fabricated, Outputs, TrackSpec
from stage_bank.tracks._cases import case_files, each
from stage_bank.tracks._pixels import view
from stage_bank.tracks._restoration import gain, restoration_references

__all__ = ["TRACK"]

SKILL = SKILLS["synthesis"]

RINGS = 60
"""Rings of the spectrum whose power is set one by one."""

CONTRAST, DARKEST, BRIGHTEST = 0.13, 0.12, 0.85
"""Standard deviation and range of the grey values of a sharp view; none is as dark as a row that was left out."""


def _make(
    pictures: Sequence[Picture], condition: Condition, rng: np.random.Generator, names: Sequence[str]
) -> Fabricated:
    files: dict[str, bytes] = {}
    references: dict[str, bytes] = {}
    for name in names:
        sharp = _sharp(view(pictures, rng, 0.5))
        files |= case_files(name, degrade(sharp, condition["kind"], condition["level"]), condition, rng, SKILL)
        references |= restoration_references(name, sharp, files, condition, SKILL)
    return Fabricated(files, references)


def _grade(outputs: Outputs, references: Mapping[str, bytes]) -> dict[str, float | None]:
    return each(outputs, lambda name, output: gain(output, name, references))


def _sharp(image: Array) -> Array:
    """A view whose spectrum follows the law; clipping disturbs it, so it is set twice."""
    radius = frequencies(image.shape)
    rings = (radius * RINGS / radius.max()).astype(int)
    aim = spectrum_law(radius)
    for _ in range(2):
        spectrum = fft.dctn(image, norm="ortho")
        power = np.bincount(rings.ravel(), weights=spectrum.ravel() ** 2) / np.bincount(rings.ravel())
        spectrum *= aim / np.sqrt(power[rings] + 1e-12)
        spectrum[0, 0] = 0.0
        even = fft.idctn(spectrum, norm="ortho")
        image = np.clip(0.5 + CONTRAST * even / even.std(), DARKEST, BRIGHTEST)
    return image


TRACK = TrackSpec(Track.SYNTHESIS, SKILL, _make, _grade)
