"""The vocabulary of the method: stages, tracks, outcomes and their published weights."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

__all__ = ["STAGES", "STAGE_WEIGHTS", "Focus", "Outcome", "SourcePool", "Stage", "Track", "weighted_stage_mean"]


class Stage(StrEnum):
    """The five workflow stages of AutoMedBench."""

    PLAN = "S1"
    SETUP = "S2"
    VALIDATE = "S3"
    INFER = "S4"
    SUBMIT = "S5"


class Focus(StrEnum):
    """What a training state practises: one stage, or the whole workflow."""

    E2E = "E2E"
    S1 = "S1"
    S2 = "S2"
    S3 = "S3"
    S4 = "S4"
    S5 = "S5"


class Track(StrEnum):
    """The seven task families of AutoMedBench."""

    CLASSIFICATION = "classification"
    SYNTHESIS = "synthesis"
    DETECTION = "detection"
    SEGMENTATION = "segmentation"
    VQA = "vqa"
    REPORT = "report"
    ENHANCEMENT = "enhancement"


class Outcome(StrEnum):
    """How the earlier stages of a state went."""

    SUCCESS = "success"
    RECOVERY = "recovery"
    FAILURE = "failure"


class SourcePool(StrEnum):
    """The three pools a round draws from (half target stage, a quarter each for the others and E2E)."""

    TARGET = "s_target"
    MIX = "s_mix"
    E2E = "e2e"


STAGES: tuple[Stage, ...] = tuple(Stage)

STAGE_WEIGHTS: Mapping[Stage, float] = {
    Stage.PLAN: 0.25,
    Stage.SETUP: 0.15,
    Stage.VALIDATE: 0.35,
    Stage.INFER: 0.15,
    Stage.SUBMIT: 0.10,
}
"""AutoMedBench stage weights (sum 1)."""


def weighted_stage_mean(scores: Mapping[Stage, float | None]) -> float | None:
    """Weighted mean of the stage scores that exist, with the weights renormalised over them.

    Missing evidence is `None`, never zero: it drops out (AutoMedBench scoring; design section 5).

    Args:
        scores: stage to score in [0, 1], or `None` where nothing could be observed.

    Returns:
        The agentic score in [0, 1], or `None` when no stage has a score.
    """
    present = {stage: score for stage, score in scores.items() if score is not None}
    total = sum(STAGE_WEIGHTS[stage] for stage in present)
    if total == 0.0:
        return None
    return sum(STAGE_WEIGHTS[stage] * score for stage, score in present.items()) / total
