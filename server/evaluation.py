"""Held-out evaluation cells and their summary, in the published shapes.

A cell is one end-to-end run of one task. `summarise` turns raw cells into `bat_eval_summary`; only aggregates of it
(stage, task and track means, counts) may ever reach the curriculum.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from common.canonical import Json, digest_json
from common.errors import DataError
from common.stages import STAGES, Stage, Track, weighted_stage_mean

__all__ = ["Cell", "EvaluationSummary", "cells_from_json", "cells_to_json", "summarise"]

AGENTIC_TOLERANCE = 1e-8
"""How far a stated agentic score may lie from the weighted stage mean."""


@dataclass(frozen=True)
class Cell:
    """One evaluated run.

    Args:
        track: task family.
        task_id: identifier of the task within its suite.
        repeat: which repetition, from 0.
        task_score: outcome in [0, 1].
        stages: score in [0, 1] of each stage, `None` where there was no evidence.
    """

    track: Track
    task_id: str
    repeat: int
    task_score: float
    stages: Mapping[Stage, float | None]

    @property
    def key(self) -> tuple[str, str, int]:
        """What pairs a baseline cell with a candidate cell."""
        return (self.track.value, self.task_id, self.repeat)

    @property
    def agentic_score(self) -> float:
        """Weighted stage mean in [0, 1]; 0 when no stage left any evidence."""
        return weighted_stage_mean(self.stages) or 0.0

    @property
    def overall_score(self) -> float:
        """Half task outcome, half agentic score."""
        return 0.5 * self.task_score + 0.5 * self.agentic_score


@dataclass(frozen=True)
class EvaluationSummary:
    """`bat_eval_summary`: a checkpoint's scores on one suite.

    Args:
        checkpoint: digest of the adapter evaluated.
        raw_evaluation: digest of the raw cells.
        cells: every cell, in a fixed order.
    """

    checkpoint: str
    raw_evaluation: str
    cells: tuple[Cell, ...]

    @property
    def keys(self) -> frozenset[tuple[str, str, int]]:
        """Track, task and repeat of every cell."""
        return frozenset(cell.key for cell in self.cells)

    @property
    def task(self) -> float:
        """Mean task score over the cells."""
        return _mean(cell.task_score for cell in self.cells)

    @property
    def agentic(self) -> float:
        """Mean agentic score over the cells."""
        return _mean(cell.agentic_score for cell in self.cells)

    @property
    def overall(self) -> float:
        """Mean overall score over the cells."""
        return _mean(cell.overall_score for cell in self.cells)

    @property
    def stage_scores(self) -> dict[Stage, float]:
        """Mean score of each stage over the cells that have evidence for it."""
        scores = {stage: [cell.stages.get(stage) for cell in self.cells] for stage in STAGES}
        present = {stage: [score for score in column if score is not None] for stage, column in scores.items()}
        return {stage: _mean(column) for stage, column in present.items() if column}

    @property
    def track_scores(self) -> dict[str, float]:
        """Mean overall score of each track."""
        by_track: dict[str, list[float]] = defaultdict(list)
        for cell in self.cells:
            by_track[cell.track.value].append(cell.overall_score)
        return {track: _mean(by_track[track]) for track in sorted(by_track)}

    def to_json(self) -> dict[str, Json]:
        """The published `bat_eval_summary` object."""
        return {
            "schema_version": 1,
            "artifact_kind": "bat_eval_summary",
            "status": "valid",
            "checkpoint_sha256": self.checkpoint,
            "raw_evaluation_sha256": self.raw_evaluation,
            "cell_count": len(self.cells),
            "cells": [
                {**_cell_json(cell), "agentic_score": cell.agentic_score, "overall_score": cell.overall_score}
                for cell in self.cells
            ],
            "means": {"task": self.task, "agentic": self.agentic, "overall": self.overall},
            "stage_scores": {stage.value: score for stage, score in self.stage_scores.items()},
            "track_scores": dict(self.track_scores),
        }


def summarise(cells: Iterable[Cell], checkpoint: str) -> EvaluationSummary:
    """Order the cells, check them and bind them to the checkpoint.

    Raises:
        DataError: no cell at all, or two cells with the same track, task and repeat.
    """
    ordered = tuple(sorted(cells, key=lambda cell: cell.key))
    if not ordered:
        raise DataError("an evaluation without cells cannot be summarised")
    for first, second in pairwise(ordered):
        if first.key == second.key:
            raise DataError("evaluation cell stands twice", where=str(first.key))
    return EvaluationSummary(checkpoint, digest_json(cells_to_json(ordered)), ordered)


def cells_to_json(cells: Sequence[Cell]) -> dict[str, Json]:
    """The published evaluation input."""
    return {"schema_version": 1, "status": "complete", "cells": [_cell_json(cell) for cell in cells]}


def cells_from_json(value: object) -> list[Cell]:
    """Read a published evaluation input.

    Raises:
        DataError: another schema version, an incomplete evaluation, or a cell that is not valid.
    """
    if not isinstance(value, dict) or value.get("schema_version") != 1 or value.get("status") != "complete":
        raise DataError("not a complete evaluation of schema version 1")
    raw = value.get("cells")
    if not isinstance(raw, list):
        raise DataError("evaluation has no list of cells")
    return [_cell_from_json(entry, number) for number, entry in enumerate(raw)]


def _cell_json(cell: Cell) -> dict[str, Json]:
    return {
        "track": cell.track.value,
        "task_id": cell.task_id,
        "repeat": cell.repeat,
        "valid": True,
        "task_score": cell.task_score,
        "stages": {stage.value: cell.stages.get(stage) for stage in STAGES},
    }


def _cell_from_json(entry: object, number: int) -> Cell:
    where = f"cell {number}"
    if not isinstance(entry, dict) or entry.get("valid") is not True:
        raise DataError("cell is not valid", where=where)
    try:
        stages = entry["stages"]
        if set(stages) != {stage.value for stage in STAGES}:
            raise ValueError("stages must be S1 to S5")
        cell = Cell(
            track=Track(entry["track"]),
            task_id=_text(entry["task_id"]),
            repeat=_natural(entry["repeat"]),
            task_score=_unit(entry["task_score"]),
            stages={stage: None if stages[stage.value] is None else _unit(stages[stage.value]) for stage in STAGES},
        )
        stated = entry.get("agentic_score")
        if stated is not None and abs(_unit(stated) - cell.agentic_score) > AGENTIC_TOLERANCE:
            raise ValueError("agentic_score is not the weighted stage mean")
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"cell cannot be read: {error}", where=where) from error
    return cell


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("task_id must be a non-empty text")
    return value


def _natural(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError("repeat must be an integer from 0")
    return value


def _unit(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0.0 <= value <= 1.0:
        raise ValueError("scores must lie in [0, 1]")
    return float(value)


def _mean(values: Iterable[float]) -> float:
    column = list(values)
    return math.fsum(column) / len(column)
