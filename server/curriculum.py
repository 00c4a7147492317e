"""BiCuRL's outer step: which stage the sites practise next (design section 5).

Only aggregate stage scores enter here: nothing of a held-out task can reach training through the choice of a stage.
"""

from __future__ import annotations

from collections.abc import Mapping

from common.messages import SelectionReason
from common.stages import SourcePool, Stage
from server.gate import GateDecision, Scored

__all__ = ["POOL_ODDS", "first_target", "next_target"]

POOL_ODDS: Mapping[SourcePool, float] = {SourcePool.TARGET: 0.5, SourcePool.MIX: 0.25, SourcePool.E2E: 0.25}
"""Half the target stage, a quarter spread over the others, a quarter end to end."""

TIE = 1e-12
"""Scores closer than this are equal; the earliest stage wins."""


def first_target(evaluation: Scored) -> tuple[Stage, SelectionReason]:
    """The weakest stage of the starting policy."""
    return _smallest(evaluation.stage_scores), SelectionReason.INITIAL


def next_target(decision: GateDecision, candidate: Scored) -> tuple[Stage, SelectionReason]:
    """Choose the next target stage from the gate's outcome.

    Promoted: the candidate's lowest stage. Held: the stage that fell most, if any fell; otherwise the candidate's
    lowest stage.

    Args:
        decision: the gate's decision on `candidate`.
        candidate: its evaluation.
    """
    if not decision.promoted:
        regressions = {stage: -drop for stage, drop in decision.stage_drops.items()}
        worst = _smallest(regressions)
        if max(decision.stage_drops.values()) > 0.0:
            return worst, SelectionReason.LARGEST_POSITIVE_REGRESSION
    return _smallest(candidate.stage_scores), SelectionReason.LOWEST_CANDIDATE_STAGE


def _smallest(scores: Mapping[Stage, float]) -> Stage:
    lowest = min(scores.values())
    return next(stage for stage in sorted(scores) if scores[stage] <= lowest + TIE)
