"""How the demonstration trains: sized for two cores and about ten minutes."""

from __future__ import annotations

from common.messages import OptimizerSettings
from common.stages import Track

__all__ = ["BANK_STATES", "CELLS_PER_TRACK", "ROUNDS", "TRACKS", "optimizer"]

ROUNDS = 3

BANK_STATES = 126
"""States in each site's bank: as many as the grid of BaT has cells."""

CELLS_PER_TRACK = 32
"""Held-out tasks of each track, in each of the two suites."""

TRACKS = (Track.CLASSIFICATION, Track.ENHANCEMENT, Track.SEGMENTATION)
"""Task families that are practised, as many as `bat-tiny` learns in that time; other runs choose by a setting."""

STEPS = 12
"""Optimizer steps of a site in a round."""


def optimizer(steps: int = STEPS) -> OptimizerSettings:
    """The optimizer settings of every round; `bat-tiny` profile of GRPO on LoRA.

    Args:
        steps: optimizer steps of a site in a round; 0 makes a round that trains nothing.
    """
    return OptimizerSettings(
        steps=steps,
        groups_per_step=8,
        group_size=8,
        learning_rate=1.5e-3,
        kl_coefficient=0.006,
        temperature=1.0,
        max_turns=24,
        max_tokens=1024,
    )
