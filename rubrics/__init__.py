"""Rubrics: evidence of a rollout, and the stage scores and rewards that follow from it."""

from rubrics.evaluation import EVALUATION_ITEMS, StageScores, evaluate
from rubrics.evidence import Evidence, Task, collect_evidence
from rubrics.failure import FailureCategory
from rubrics.items import Finding, Item, Verdict
from rubrics.replay import Extent, Replayer, Rerun, View
from rubrics.training import TRAINING_ITEMS, TrainingReward, training_reward

__all__ = [
    "EVALUATION_ITEMS",
    "TRAINING_ITEMS",
    "Evidence",
    "Extent",
    "FailureCategory",
    "Finding",
    "Item",
    "Replayer",
    "Rerun",
    "StageScores",
    "Task",
    "TrainingReward",
    "Verdict",
    "View",
    "collect_evidence",
    "evaluate",
    "training_reward",
]
