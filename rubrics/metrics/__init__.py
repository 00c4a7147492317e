"""Metrics of the tracks: pure functions of arrays."""

from rubrics.metrics.accuracy import above_chance, balanced_accuracy
from rubrics.metrics.dice import dice
from rubrics.metrics.ssim import relative_gain, ssim

__all__ = ["above_chance", "balanced_accuracy", "dice", "relative_gain", "ssim"]
