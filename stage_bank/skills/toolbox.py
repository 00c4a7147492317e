"""Every track's skill by its name: a new track adds its line here."""

from __future__ import annotations

from collections.abc import Mapping

from . import classification, enhancement, segmentation
from .skill import TrackSkill

__all__ = ["SKILLS"]

SKILLS: Mapping[str, TrackSkill] = {
    "classification": classification.SKILL,
    "enhancement": enhancement.SKILL,
    "segmentation": segmentation.SKILL,
}
"""Track to its skill."""
