"""The gate and the curriculum against hand-made evaluations and the published thresholds."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.errors import DataError
from common.messages import SelectionReason
from common.stages import STAGES, Stage, Track
from server.curriculum import POOL_ODDS, first_target, next_target
from server.evaluation import Cell, EvaluationSummary, cells_from_json, cells_to_json, summarise
from server.gate import decide

UNIT = st.floats(0, 1)


def evaluation(
    task: float = 0.5, stages: Mapping[Stage, float] | None = None, *, checkpoint: str = "a" * 64, tasks: int = 2
) -> EvaluationSummary:
    scores = dict.fromkeys(STAGES, 0.5) | dict(stages or {})
    return summarise(
        [
            Cell(track, f"task-{number}", 0, task, scores)
            for track in (Track.SEGMENTATION, Track.ENHANCEMENT)
            for number in range(tasks)
        ],
        checkpoint,
    )


def test_equal_checkpoints_are_promoted() -> None:
    decision = decide(evaluation(), evaluation(), healthy=True)
    assert decision.promoted
    assert decision.failing == ()


@pytest.mark.parametrize(
    ("candidate", "failing"),
    [
        (evaluation(task=0.47), {"overall_noninferiority"}),
        (evaluation(task=0.469), {"overall_noninferiority", "task_noninferiority"}),
        (evaluation(stages={Stage.SUBMIT: 0.46}), {"late_stage_regression"}),
        (evaluation(task=0.0), {"per_track_regression", "catastrophic_forgetting"}),
    ],
)
def test_each_drop_fails_its_own_check(candidate: EvaluationSummary, failing: set[str]) -> None:
    decision = decide(evaluation(), candidate, healthy=True)
    assert failing <= set(decision.failing)
    assert not decision.promoted


def test_unhealthy_training_holds_even_a_better_candidate() -> None:
    assert decide(evaluation(), evaluation(task=1.0), healthy=False).failing == ("training_health",)


def test_different_cells_are_an_error_not_a_failed_check() -> None:
    with pytest.raises(DataError, match="different cells"):
        decide(evaluation(), evaluation(tasks=3), healthy=True)


def test_promotion_targets_the_lowest_stage_and_ties_go_to_the_earliest() -> None:
    candidate = evaluation(task=0.9, stages={Stage.INFER: 0.4, Stage.SETUP: 0.4 + 1e-13})
    decision = decide(evaluation(stages={Stage.INFER: 0.4, Stage.SETUP: 0.4}), candidate, healthy=True)
    assert next_target(decision, candidate) == (Stage.SETUP, SelectionReason.LOWEST_CANDIDATE_STAGE)


def test_a_held_round_targets_the_largest_regression() -> None:
    candidate = evaluation(stages={Stage.VALIDATE: 0.2, Stage.PLAN: 0.1})
    decision = decide(evaluation(stages={Stage.PLAN: 0.15}), candidate, healthy=True)
    assert not decision.promoted
    assert next_target(decision, candidate) == (Stage.VALIDATE, SelectionReason.LARGEST_POSITIVE_REGRESSION)


def test_a_held_round_without_regression_targets_the_lowest_stage() -> None:
    candidate = evaluation(stages={Stage.SUBMIT: 0.4})
    decision = decide(evaluation(stages={Stage.SUBMIT: 0.4}), candidate, healthy=False)
    assert next_target(decision, candidate) == (Stage.SUBMIT, SelectionReason.LOWEST_CANDIDATE_STAGE)


def test_the_first_target_is_the_weakest_stage() -> None:
    assert first_target(evaluation(stages={Stage.VALIDATE: 0.1})) == (Stage.VALIDATE, SelectionReason.INITIAL)
    assert sum(POOL_ODDS.values()) == 1.0


@given(task=UNIT, scores=st.lists(st.none() | UNIT, min_size=5, max_size=5))
def test_cells_survive_the_published_json(task: float, scores: list[float | None]) -> None:
    cells = [Cell(Track.SEGMENTATION, "t", 0, task, dict(zip(STAGES, scores, strict=True)))]
    text = json.dumps(cells_to_json(cells), allow_nan=False)
    assert cells_from_json(json.loads(text)) == cells


def _stated_agentic_score(value: float) -> dict[str, object]:
    raw = json.loads(json.dumps(cells_to_json(evaluation().cells)))
    raw["cells"][0]["agentic_score"] = value
    return raw  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "raw",
    [
        None,
        {"schema_version": 2, "status": "complete", "cells": []},
        {"schema_version": 1, "status": "running", "cells": []},
        {"schema_version": 1, "status": "complete", "cells": [{"valid": False}]},
        _stated_agentic_score(0.6),
    ],
)
def test_what_is_not_a_complete_valid_evaluation_is_refused(raw: object) -> None:
    with pytest.raises(DataError):
        cells_from_json(raw)


def test_a_doubled_cell_is_refused() -> None:
    cell = evaluation().cells[0]
    with pytest.raises(DataError, match="twice"):
        summarise([cell, cell], "a" * 64)


def test_missing_stage_evidence_is_left_out_not_zero() -> None:
    cell = Cell(Track.SEGMENTATION, "t", 0, 1.0, {**dict.fromkeys(STAGES, 1.0), Stage.PLAN: None})
    summary = summarise([cell], "a" * 64)
    assert cell.agentic_score == pytest.approx(1.0)
    assert Stage.PLAN not in summary.stage_scores
