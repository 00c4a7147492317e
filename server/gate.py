"""The promotion gate: a candidate adapter replaces the baseline only if it loses nothing that matters.

Thresholds and comparisons are those of BaT (design section 5): every drop is baseline minus candidate on paired cells,
compared with `<=` as floats, the catastrophic one with `<`; all checks must hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import Protocol

from common.canonical import Json
from common.errors import DataError
from common.stages import Stage

__all__ = ["GateDecision", "GateThresholds", "Scored", "decide"]

LATE_STAGES = (Stage.VALIDATE, Stage.INFER, Stage.SUBMIT)


class Scored(Protocol):
    """What the gate reads of an evaluation: computed from cells, or stated in a published summary."""

    @property
    def checkpoint(self) -> str:
        """Digest of the adapter evaluated; empty where nobody says."""

    @property
    def keys(self) -> Set[tuple[str, str, int]]:
        """Track, task and repeat of every cell."""

    @property
    def overall(self) -> float:
        """Mean overall score."""

    @property
    def task(self) -> float:
        """Mean task score."""

    @property
    def stage_scores(self) -> Mapping[Stage, float]:
        """Mean score of each stage with evidence."""

    @property
    def track_scores(self) -> Mapping[str, float]:
        """Mean overall score of each track."""


@dataclass(frozen=True)
class GateThresholds:
    """Largest tolerated drops, in score units."""

    maximum_overall_drop: float = 0.01
    maximum_task_drop: float = 0.03
    maximum_per_track_drop: float = 0.05
    maximum_late_stage_drop: float = 0.03
    catastrophic_overall_drop: float = 0.20


@dataclass(frozen=True)
class GateDecision:
    """`bat_promotion_gate`: the checks, the drops behind them and the verdict.

    Args:
        baseline: digest of the checkpoint that stands.
        candidate: digest of the checkpoint that wants to replace it.
        checks: name of a check to whether it holds.
        overall_drop: baseline minus candidate, mean overall.
        task_drop: baseline minus candidate, mean task score.
        track_drops: the same per track, mean overall.
        stage_drops: the same per stage.
        thresholds: the limits that were applied.
    """

    baseline: str
    candidate: str
    checks: Mapping[str, bool]
    overall_drop: float
    task_drop: float
    track_drops: Mapping[str, float]
    stage_drops: Mapping[Stage, float]
    thresholds: GateThresholds = field(default_factory=GateThresholds)

    @property
    def promoted(self) -> bool:
        """Whether every check holds."""
        return all(self.checks.values())

    @property
    def failing(self) -> tuple[str, ...]:
        """Names of the checks that do not hold."""
        return tuple(name for name, holds in self.checks.items() if not holds)

    def to_json(self) -> dict[str, Json]:
        """The published `bat_promotion_gate` object."""
        return {
            "schema_version": 1,
            "artifact_kind": "bat_promotion_gate",
            "status": "promote" if self.promoted else "hold",
            "promoted": self.promoted,
            "baseline_checkpoint_sha256": self.baseline or None,
            "candidate_checkpoint_sha256": self.candidate or None,
            "checks": dict(self.checks),
            "deltas": {
                "overall_drop": self.overall_drop,
                "task_drop": self.task_drop,
                "track_drops": dict(self.track_drops),
                "stage_drops": {stage.value: drop for stage, drop in self.stage_drops.items()},
            },
            "thresholds": dict(self.thresholds.__dict__),
        }


def decide(
    baseline: Scored,
    candidate: Scored,
    *,
    healthy: bool,
    thresholds: GateThresholds | None = None,
) -> GateDecision:
    """Compare two evaluations of the same cells.

    Args:
        baseline: the standing checkpoint's evaluation.
        candidate: the new checkpoint's evaluation.
        healthy: whether training itself went well (valid releases from a quorum, all finite).
        thresholds: other limits than the published ones.

    Raises:
        DataError: the two evaluations do not hold the same cells, tracks or stages.
    """
    limits = thresholds or GateThresholds()
    if baseline.keys != candidate.keys:
        odd = min(baseline.keys ^ candidate.keys)
        raise DataError("baseline and candidate were evaluated on different cells", where=f"one of them lacks {odd}")
    if baseline.track_scores.keys() != candidate.track_scores.keys():
        raise DataError("baseline and candidate have scores for different tracks")
    before, after = baseline.stage_scores, candidate.stage_scores
    if before.keys() != after.keys():
        raise DataError("baseline and candidate have evidence for different stages")
    track_drops = {track: baseline.track_scores[track] - score for track, score in candidate.track_scores.items()}
    stage_drops = {stage: before[stage] - score for stage, score in after.items()}
    overall_drop = baseline.overall - candidate.overall
    task_drop = baseline.task - candidate.task
    late_drops = [stage_drops[stage] for stage in LATE_STAGES if stage in stage_drops]
    checks = {
        "paired_cells": True,
        "training_health": healthy,
        "overall_noninferiority": overall_drop <= limits.maximum_overall_drop,
        "task_noninferiority": task_drop <= limits.maximum_task_drop,
        "per_track_regression": all(drop <= limits.maximum_per_track_drop for drop in track_drops.values()),
        "late_stage_regression": all(drop <= limits.maximum_late_stage_drop for drop in late_drops),
        "catastrophic_forgetting": overall_drop < limits.catastrophic_overall_drop,
    }
    return GateDecision(
        baseline=baseline.checkpoint,
        candidate=candidate.checkpoint,
        checks=checks,
        overall_drop=overall_drop,
        task_drop=task_drop,
        track_drops=track_drops,
        stage_drops=stage_drops,
        thresholds=limits,
    )
