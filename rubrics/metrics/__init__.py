"""Metrics of the tracks: pure functions of arrays."""

from rubrics.metrics.accuracy import above_chance, balanced_accuracy
from rubrics.metrics.detection import Box, mean_average_precision, overlap
from rubrics.metrics.dice import dice
from rubrics.metrics.ssim import relative_gain, ssim

__all__ = [
    "Box",
    "above_chance",
    "balanced_accuracy",
    "dice",
    "mean_average_precision",
    "overlap",
    "relative_gain",
    "ssim",
]
