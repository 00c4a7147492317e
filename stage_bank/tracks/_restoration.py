"""Scoring of restored images: SSIM gained over the untouched case, relative to the frozen reference pipeline."""

from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np

from common.canonical import canonical_json
from rubrics.metrics import relative_gain, ssim
from stage_bank.skills import NO_EXEMPLARS, Array, Output, TrackSkill, decode_image, encode_image
from stage_bank.tracks._base import Condition
from stage_bank.tracks._cases import loaded

__all__ = ["gain", "restoration_references"]


def restoration_references(
    name: str, clean: Array, files: Mapping[str, bytes], condition: Condition, skill: TrackSkill
) -> dict[str, bytes]:
    """The hidden files of one case: its clean form, and the SSIM of the untouched case and of the right pipeline.

    Args:
        name: case name.
        clean: [rows, columns] in [0, 1], display polarity.
        files: public files of the fabrication, those of this case among them.
        condition: facet to value.
        skill: of the track.
    """
    case = loaded(files, name, condition)
    best = skill.process(case, skill.methods[condition["kind"]], condition["level"], NO_EXEMPLARS)
    scale = {"untouched": ssim(np.clip(case.pixels, 0, 1), clean), "reference": ssim(best, clean)}
    return {f"{name}/clean.npy": encode_image(clean), f"{name}/scale.json": canonical_json(scale)}


def gain(output: Output, name: str, references: Mapping[str, bytes]) -> float:
    """The score of one restored image in [0, 1]."""
    clean = decode_image(references[f"{name}/clean.npy"])
    scale = json.loads(references[f"{name}/scale.json"])
    if scale["reference"] <= scale["untouched"]:
        return 0.0
    return relative_gain(ssim(output, clean), scale["untouched"], scale["reference"])
