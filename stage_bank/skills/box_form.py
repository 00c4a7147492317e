"""Outputs that are boxes: `prediction.json`."""

from __future__ import annotations

import json
import math
from typing import Any

from ._words import COLUMNS
from .delivery import LARGEST, ORIENTATIONS, Form

__all__ = ["Box", "Boxes", "box_form"]

Box = tuple[str, float, float, float, float, float]
"""Class, x1, y1, x2, y2 (pixel edges, x to the right, y down), score in [0, 1]."""

Boxes = tuple[Box, ...]

SIDES = ("x1", "y1", "x2", "y2")
MOST = 1000
"""Most boxes of a file."""


def box_form(file_name: str) -> Form:
    """The form of boxes that are written to a file of that name."""
    return Form(
        file_name=file_name,
        encode=encode_boxes,
        decode=decode_boxes,
        field="PatientOrientation",
        stated=ORIENTATIONS,
        turn=turn_boxes,
        restore=restore_boxes,
        fits=inside,
    )


def encode_boxes(boxes: Boxes) -> bytes:
    """Boxes as JSON, in their order."""
    rows = [{"class": label, **dict(zip(SIDES, sides, strict=True)), "score": score} for label, *sides, score in boxes]
    return json.dumps({"boxes": rows}).encode()


def decode_boxes(data: bytes) -> Boxes:
    """Read a file of boxes that may be hostile; a box without a score has score 1.

    Raises:
        ValueError: damaged, oversized, not such a file, or a box that encloses nothing.
    """
    if len(data) > LARGEST:
        raise ValueError("too large")
    try:
        fields = json.loads(data)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    rows = fields.get("boxes") if isinstance(fields, dict) else None
    if not isinstance(rows, list) or len(rows) > MOST:
        raise ValueError(f"no list of at most {MOST} boxes")
    return tuple(_box(row) for row in rows)


def _box(row: Any) -> Box:
    if not isinstance(row, dict) or not isinstance(row.get("class"), str):
        raise ValueError("box without class")
    x1, y1, x2, y2 = (_number(row.get(side)) for side in SIDES)
    score = _number(row.get("score", 1.0))
    if not (x1 < x2 and y1 < y2 and 0.0 <= score <= 1.0):
        raise ValueError("box without area, or score outside [0, 1]")
    return row["class"], x1, y1, x2, y2, score


def _number(value: Any) -> float:
    if type(value) not in (int, float) or not abs(value) < 1e6 or not math.isfinite(value):
        raise ValueError("no number")
    return float(value)


def turn_boxes(boxes: Boxes, delivery: str) -> Boxes:
    """Bring the boxes of a case into the delivered orientation, as `turn_image` does its image."""
    if delivery == "flip":
        return tuple((c, COLUMNS - x2, y1, COLUMNS - x1, y2, score) for c, x1, y1, x2, y2, score in boxes)
    if delivery == "turn":
        return tuple((c, y1, COLUMNS - x2, y2, COLUMNS - x1, score) for c, x1, y1, x2, y2, score in boxes)
    return boxes


def restore_boxes(boxes: Boxes, delivery: str) -> Boxes:
    """Undo `turn_boxes`."""
    if delivery == "turn":
        return tuple((c, COLUMNS - y2, x1, COLUMNS - y1, x2, score) for c, x1, y1, x2, y2, score in boxes)
    return turn_boxes(boxes, delivery)


def inside(boxes: Boxes, shape: tuple[int, ...]) -> bool:
    """Whether all boxes lie inside an image of that shape [rows, columns]."""
    return all(x1 >= 0 and y1 >= 0 and x2 <= shape[1] and y2 <= shape[0] for _, x1, y1, x2, y2, _ in boxes)
