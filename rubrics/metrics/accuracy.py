"""Accuracy that a constant answer cannot raise."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["above_chance", "balanced_accuracy"]


def balanced_accuracy(predicted: Sequence[int | None], truth: Sequence[int]) -> float:
    """Mean recall over the classes that occur in the truth.

    Args:
        predicted: a class a case, `None` where there is no valid answer (counts as wrong).
        truth: the true class a case.

    Raises:
        ValueError: nothing to score, or lengths differ.
    """
    if not truth or len(predicted) != len(truth):
        raise ValueError(f"{len(predicted)} answers for {len(truth)} cases")
    recalls = []
    for label in sorted(set(truth)):
        answers = [answer for answer, true in zip(predicted, truth, strict=True) if true == label]
        recalls.append(sum(answer == label for answer in answers) / len(answers))
    return sum(recalls) / len(recalls)


def above_chance(accuracy: float, classes: int = 2) -> float:
    """Map accuracy to [0, 1]: chance (1 / classes) and below give 0, perfect gives 1.

    Raises:
        ValueError: fewer than two classes.
    """
    if classes < 2:
        raise ValueError("at least two classes are needed")
    chance = 1.0 / classes
    return min(max((accuracy - chance) / (1.0 - chance), 0.0), 1.0)
