"""Metrics of the tracks: pure functions of arrays."""

from rubrics.metrics.accuracy import above_chance, balanced_accuracy
from rubrics.metrics.answers import exact_match, normalised_answer, token_f1
from rubrics.metrics.detection import Box, mean_average_precision, overlap
from rubrics.metrics.dice import dice
from rubrics.metrics.psnr import psnr
from rubrics.metrics.ssim import relative_gain, ssim
from rubrics.metrics.text import entity_f1, rouge_l, words_of

__all__ = [
    "Box",
    "above_chance",
    "balanced_accuracy",
    "dice",
    "entity_f1",
    "exact_match",
    "mean_average_precision",
    "normalised_answer",
    "overlap",
    "psnr",
    "relative_gain",
    "rouge_l",
    "ssim",
    "token_f1",
    "words_of",
]
