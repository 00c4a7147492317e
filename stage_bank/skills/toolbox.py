"""Every track's skill by its name: a new track adds its line here."""

from __future__ import annotations

from collections.abc import Mapping

from . import classification, detection, enhancement, report, segmentation, synthesis, vqa
from .skill import TrackSkill

__all__ = ["SKILLS"]

SKILLS: Mapping[str, TrackSkill] = {
    "classification": classification.SKILL,
    "detection": detection.SKILL,
    "enhancement": enhancement.SKILL,
    "report": report.SKILL,
    "segmentation": segmentation.SKILL,
    "synthesis": synthesis.SKILL,
    "vqa": vqa.SKILL,
}
"""Track to its skill."""
