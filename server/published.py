"""The gate's input and output as published files: `bat_eval_summary` in, `bat_promotion_gate` and
`bat_round_prescription` out.

The gate compares the means that a summary states, as the published gate does; its cells only pair it with the other.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

from common.canonical import Json
from common.errors import DataError
from common.stages import STAGES, Stage
from server.curriculum import next_target
from server.evaluation import EvaluationSummary, cells_from_json, summarise
from server.gate import Scored, decide

__all__ = ["StatedSummary", "gate_pair", "parse_strictly", "read_summary"]

POOL_ROWS: Mapping[str, Json] = {"s_target": 4, "s_mix": 2, "e2e": 2}
"""Rows a batch of each pool."""

OPTIMIZER: Mapping[str, Json] = {
    "learning_rate": 2.5e-7,
    "kl_loss_coefficient": 0.006,
    "normalize_advantage_by_std": False,
    "loss_aggregation": "sequence_mean_then_token_mean",
    "steps": 50,
    "continuations_per_state": 4,
}
"""The published optimizer of a round."""


@dataclass(frozen=True)
class StatedSummary:
    """The part of a `bat_eval_summary` that the gate reads; see `server.gate.Scored`."""

    checkpoint: str
    keys: frozenset[tuple[str, str, int]]
    overall: float
    task: float
    stage_scores: Mapping[Stage, float]
    track_scores: Mapping[str, float]


def parse_strictly(data: bytes, name: str) -> object:
    """Parse JSON that may be hostile: UTF-8, no NaN, no infinity, no key twice, bounded depth.

    Args:
        data: the whole text.
        name: what to call it in an error.

    Raises:
        DataError: it is none.
    """
    try:
        return json.loads(data.decode(), parse_constant=_no_constant, object_pairs_hook=_no_key_twice)
    except (ValueError, RecursionError) as error:
        raise DataError(f"not JSON: {str(error).splitlines()[0][:160]}", where=name) from error


def read_summary(value: object, name: str) -> Scored:
    """Read a `bat_eval_summary`, or an evaluation input (status "complete"), which is summarised first.

    Fields that the gate does not need are ignored; a stage without evidence may be null. An evaluation input names its
    checkpoint in `checkpoint_sha256`; without it the checkpoint is unknown (empty).

    Args:
        value: parsed JSON.
        name: what to call it in an error.

    Raises:
        DataError: another kind or version, not valid, or a field that the gate needs is missing or out of range.
    """
    try:
        if not isinstance(value, dict):
            raise ValueError("not an object")
        if value.get("artifact_kind", "bat_eval_summary") != "bat_eval_summary" or value.get("schema_version", 1) != 1:
            raise ValueError("not a bat_eval_summary of schema version 1")
        if value.get("status") == "complete" and "means" not in value:
            return _summarised(value, name)
        if value.get("status") != "valid":
            raise ValueError('status is neither "valid" (a summary) nor "complete" (an evaluation)')
        return StatedSummary(
            checkpoint=_digest(value.get("checkpoint_sha256")),
            keys=_keys(value.get("cells"), value.get("cell_count")),
            overall=_means(value)["overall"],
            task=_means(value)["task"],
            stage_scores=_stages(_object(value, "stage_scores")),
            track_scores=_tracks(_object(value, "track_scores")),
        )
    except ValueError as error:
        raise DataError(f"summary cannot be used: {error}", where=name) from error


def _summarised(value: Mapping[str, object], name: str) -> EvaluationSummary:
    stated = value.get("checkpoint_sha256")
    try:
        return summarise(cells_from_json(dict(value)), "" if stated is None else _digest(stated))
    except DataError as error:
        raise DataError(error.what, where=f"{name}: {error.where}" if error.where else name) from error


def gate_pair(baseline: Scored, candidate: Scored, *, healthy: bool) -> dict[str, Json]:
    """Decide and prescribe.

    Args:
        baseline: the standing checkpoint's evaluation.
        candidate: the new checkpoint's evaluation.
        healthy: whether training went well.

    Returns:
        `gate`, a `bat_promotion_gate`, and `prescription`, a `bat_round_prescription`.

    Raises:
        DataError: the two do not hold the same cells, tracks or stages.
    """
    decision = decide(baseline, candidate, healthy=healthy)
    target, reason = next_target(decision, candidate)
    gate = decision.to_json()
    return {
        "gate": gate,
        "prescription": {
            "schema_version": 1,
            "artifact_kind": "bat_round_prescription",
            "target_stage": target.value,
            "selection_reason": reason.value,
            "starting_checkpoint_sha256": (candidate if decision.promoted else baseline).checkpoint or None,
            "promotion_status": gate["status"],
            "pool_rows_per_batch": dict(POOL_ROWS),
            "optimizer": dict(OPTIMIZER),
            "aggregate_stage_scores": {stage.value: candidate.stage_scores.get(stage) for stage in STAGES},
        },
    }


def _object(value: Mapping[str, object], name: str) -> Mapping[str, object]:
    inner = value.get(name)
    if not isinstance(inner, dict) or not inner:
        raise ValueError(f"{name} is not an object with entries")
    return inner


def _means(value: Mapping[str, object]) -> dict[str, float]:
    means = _object(value, "means")
    return {name: _score(means.get(name), f"means.{name}") for name in ("task", "agentic", "overall")}


def _stages(scores: Mapping[str, object]) -> dict[Stage, float]:
    unknown = sorted(scores.keys() - {stage.value for stage in STAGES})
    if unknown:
        raise ValueError(f"stage_scores has an unknown stage {unknown[0][:40]!r}")
    present = {stage: scores.get(stage.value) for stage in STAGES}
    found = {stage: _score(score, f"stage_scores.{stage}") for stage, score in present.items() if score is not None}
    if not found:
        raise ValueError("stage_scores has no score")
    return found


def _tracks(scores: Mapping[str, object]) -> dict[str, float]:
    return {track: _score(score, f"track_scores.{track[:40]}") for track, score in scores.items()}


def _score(value: object, field: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ValueError(f"{field} is not a number in [0, 1]")
    return float(value)


def _digest(value: object) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[0-9a-f]{64}", value):
        raise ValueError("checkpoint_sha256 is not 64 hex digits")
    return value


def _keys(cells: object, count: object) -> frozenset[tuple[str, str, int]]:
    if not isinstance(cells, list) or not cells:
        raise ValueError("cells is not a list with entries")
    keys = [_key(cell, number) for number, cell in enumerate(cells)]
    if len(set(keys)) != len(keys):
        raise ValueError("a cell stands twice")
    if count is not None and (isinstance(count, bool) or count != len(keys)):
        raise ValueError(f"cell_count is not {len(keys)}, the number of cells")
    return frozenset(keys)


def _key(cell: object, number: int) -> tuple[str, str, int]:
    if not isinstance(cell, dict):
        raise ValueError(f"cell {number} is not an object")
    track, task, repeat = cell.get("track"), cell.get("task_id"), cell.get("repeat")
    if not isinstance(track, str) or not track or not isinstance(task, str) or not task:
        raise ValueError(f"cell {number} names no track or task_id")
    if isinstance(repeat, bool) or not isinstance(repeat, int) or repeat < 0:
        raise ValueError(f"cell {number} has no repeat from 0")
    if cell.get("valid", True) is not True:
        raise ValueError(f"cell {number} is not valid")
    return track, task, repeat


def _no_constant(token: str) -> NoReturn:
    raise ValueError(f"{token} is not a number of JSON")


def _no_key_twice(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice in an object")
    return found
