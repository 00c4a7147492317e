"""Mean average precision of boxes by the rules of COCO, at one overlap threshold.

Lin et al., "Microsoft COCO: common objects in context", 2014, and the evaluation that belongs to it: detections are
taken by falling score, each one claims the free true box it overlaps most, precision is made non-increasing over recall
and averaged over 101 recalls. There are no crowd boxes and no size ranges here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

__all__ = ["Box", "mean_average_precision", "overlap"]

Box = tuple[str, float, float, float, float, float]
"""Class, x1, y1, x2, y2 (pixel edges, x2 > x1, y2 > y1), score."""

MOST = 100
"""Detections of a class that count in one image, the best first."""

RECALLS = np.linspace(0.0, 1.0, 101)


def overlap(one: Box, other: Box) -> float:
    """Intersection over union of two boxes, whatever their classes."""
    width = min(one[3], other[3]) - max(one[1], other[1])
    height = min(one[4], other[4]) - max(one[2], other[2])
    shared = max(width, 0.0) * max(height, 0.0)
    areas = [(box[3] - box[1]) * (box[4] - box[2]) for box in (one, other)]
    return shared / (sum(areas) - shared)


def mean_average_precision(
    predicted: Sequence[Sequence[Box]], truth: Sequence[Sequence[Box]], threshold: float = 0.5
) -> float:
    """Mean over the classes of the truth of their average precision, in [0, 1].

    Args:
        predicted: the boxes of every image.
        truth: the true boxes of every image; their scores are not read.
        threshold: least overlap of a detection with the box it finds.

    Raises:
        ValueError: different numbers of images, or no true box at all.
    """
    classes = sorted({box[0] for boxes in truth for box in boxes})
    if not classes or len(predicted) != len(truth):
        raise ValueError(f"{len(predicted)} images for {len(truth)}, with true boxes of {len(classes)} classes")
    return float(np.mean([_average_precision(name, predicted, truth, threshold) for name in classes]))


def _average_precision(
    name: str, predicted: Sequence[Sequence[Box]], truth: Sequence[Sequence[Box]], threshold: float
) -> float:
    found: list[tuple[float, bool]] = []
    for guesses, boxes in zip(predicted, truth, strict=True):
        found += _claims([b for b in guesses if b[0] == name], [b for b in boxes if b[0] == name], threshold)
    found.sort(key=lambda claim: -claim[0])
    hits = np.cumsum([hit for _, hit in found])
    recall = hits / sum(box[0] == name for boxes in truth for box in boxes)
    precision = hits / np.arange(1, len(found) + 1)
    envelope = np.append(np.maximum.accumulate(precision[::-1])[::-1], 0.0)
    return float(envelope[np.searchsorted(recall, RECALLS, side="left")].mean())


def _claims(guesses: Sequence[Box], boxes: Sequence[Box], threshold: float) -> list[tuple[float, bool]]:
    """Score of each counted detection of an image, and whether it finds a true box that no better one has found."""
    free = list(boxes)
    claims = []
    for guess in sorted(guesses, key=lambda box: -box[5])[:MOST]:
        best = max(free, key=lambda box: overlap(guess, box), default=None)
        hit = best is not None and overlap(guess, best) >= threshold
        if hit and best is not None:
            free.remove(best)
        claims.append((guess[5], hit))
    return claims
