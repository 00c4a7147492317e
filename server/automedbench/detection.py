"""Detection: `prediction.json` with boxes; mean average precision at an overlap of 0.5."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from common.errors import DataError
from rubrics.metrics import mean_average_precision
from server.automedbench.files import CaseFiles, InvalidOutput
from server.automedbench.task import Graded, Task
from stage_bank.skills.box_form import Boxes, decode_boxes

__all__ = ["TASK"]

OUTPUT = "prediction.json"
REFERENCES = ("boxes.json", "reference.json", OUTPUT)
"""Names the truth may have: `boxes` as in an output; with `width` and `height` of the image boxes must lie inside."""


@dataclass(frozen=True)
class _Truth:
    boxes: Boxes
    size: tuple[float, float] | None


def _read(case: CaseFiles) -> tuple[Boxes, _Truth]:
    truth = _truth(case.reference)
    try:
        boxes = decode_boxes(case.output[OUTPUT])
    except ValueError as error:
        raise InvalidOutput(str(error)) from error
    if truth.size is not None:
        width, height = truth.size
        if any(x1 < 0 or y1 < 0 or x2 > width or y2 > height for _, x1, y1, x2, y2, _ in boxes):
            raise InvalidOutput("a box reaches out of the image")
    return boxes, truth


def _truth(files: Mapping[str, bytes]) -> _Truth:
    name = next((name for name in REFERENCES if name in files), None)
    if name is None:
        raise DataError(f"a reference case needs one of {', '.join(REFERENCES)}")
    try:
        fields: Any = json.loads(files[name])
        sized = isinstance(fields, dict) and "width" in fields and "height" in fields
        return _Truth(decode_boxes(files[name]), (float(fields["width"]), float(fields["height"])) if sized else None)
    except (ValueError, TypeError, RecursionError) as error:
        raise DataError(f"a reference case cannot be read: {error}", where=name) from error


def _grade(cases: Mapping[str, tuple[Boxes, _Truth]]) -> Graded:
    predicted, truth = [given for given, _ in cases.values()], [true.boxes for _, true in cases.values()]
    counts = {
        name: {"boxes": float(len(given)), "true_boxes": float(len(true.boxes))}
        for name, (given, true) in cases.items()
    }
    if not any(truth):
        score = float(not any(predicted))
        return Graded(score, {"map_50": None}, counts)
    score = mean_average_precision(predicted, truth)
    return Graded(score, {"map_50": score}, counts)


TASK = Task(
    name="detection",
    wanted=OUTPUT,
    there=lambda output, _: OUTPUT in output,
    read=_read,
    grade=_grade,
    methods=(
        "yolo", "detr", "faster", "retinanet", "fcos", "nndetection", "mask r-cnn", "rcnn",
        "matched filter", "blob", "template",
    ),
)  # fmt: skip
