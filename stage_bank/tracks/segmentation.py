"""Segmentation: seeded lesions in compressed real tissue; Dice relative to the frozen reference pipeline.

Real tissue is compressed to a narrow band of grey values first, so that no real structure is taken for a lesion, and no
view shows what the site's own reference marks. The mask is known by construction.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np
from scipy import ndimage

from common.canonical import canonical_json
from common.stages import Track
from rubrics.metrics import dice
from stage_bank.picture import Picture
from stage_bank.skills import COLUMNS, NO_EXEMPLARS, SKILLS, Array, Output, decode_mask, encode_mask
from stage_bank.skills.segmentation import RADII
from stage_bank.tracks._base import Condition, Fabricated, Outputs, TrackSpec
from stage_bank.tracks._cases import case_files, each, loaded
from stage_bank.tracks._pixels import Mask, compress, disc, place_discs, view

__all__ = ["TRACK"]

SKILL = SKILLS["segmentation"]

LEAST_REFERENCE = 0.5
"""A case whose reference pipeline reaches less Dice than this gives no score above 0."""


def _make(
    pictures: Sequence[Picture], condition: Condition, rng: np.random.Generator, names: Sequence[str]
) -> Fabricated:
    files: dict[str, bytes] = {}
    references: dict[str, bytes] = {}
    for name in names:
        pixels, mask = _insert(view(pictures, rng, 1.5, clear=True), condition["kind"], condition["level"], rng)
        files |= case_files(name, pixels, condition, rng, SKILL)
        method = SKILL.methods[condition["kind"]]
        best = SKILL.process(loaded(files, name, condition), method, condition["level"], NO_EXEMPLARS)
        references[f"{name}/lesion.nii.gz"] = encode_mask(mask)
        references[f"{name}/scale.json"] = canonical_json({"reference": dice(best, mask)})
    return Fabricated(files, references)


def _grade(outputs: Outputs, references: Mapping[str, bytes]) -> dict[str, float | None]:
    return each(outputs, lambda name, output: _score(output, name, references))


def _score(output: Output, name: str, references: Mapping[str, bytes]) -> float:
    mask = decode_mask(references[f"{name}/lesion.nii.gz"])
    reference = float(json.loads(references[f"{name}/scale.json"])["reference"])
    return min(dice(output, mask) / reference, 1.0) if reference >= LEAST_REFERENCE else 0.0


def _insert(tissue: Array, kind: str, level: str, rng: np.random.Generator) -> tuple[Array, Mask]:
    """Put one or two lesions of a kind and size class into a view; pixels and lesion mask."""
    radius = RADII[level]
    count = 1 if level == "3" else int(rng.integers(1, 3))
    mask = np.zeros(tissue.shape, dtype=bool)
    image = compress(tissue, 0.3, 0.36) if kind == "faint" else compress(tissue, 0.26, 0.4)
    if kind == "faint":
        slant = np.linspace(-0.15, 0.5, COLUMNS)[None, :]
        image = image + (slant if rng.random() < 0.5 else slant[:, ::-1])
    for centre in place_discs([radius] * count, rng):
        lesion = disc(centre, radius)
        mask |= lesion
        image = image + _lesion(lesion, kind, centre, radius)
    return np.clip(image, 0.0, 1.0), mask


def _lesion(lesion: Mask, kind: str, centre: tuple[int, int], radius: float) -> Array:
    """What one lesion adds to the image."""
    shape: Array = lesion.astype(np.float64)
    if kind == "ring":
        return 0.45 * (shape * ~disc(centre, radius - 1.5))
    if kind in ("solid", "faint"):
        blurred: Array = ndimage.gaussian_filter(shape, 0.5)
        return (0.45 if kind == "solid" else 0.16) * blurred
    dots = np.zeros(lesion.shape)
    dots[centre[0] % 2 :: 2, centre[1] % 2 :: 2] = 0.45
    return dots * shape


TRACK = TrackSpec(Track.SEGMENTATION, SKILL, _make, _grade)
