"""One run directory to one JSON object: stage scores, task score, agentic and overall score, error code."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from common.canonical import Json
from common.errors import DataError
from common.stages import weighted_stage_mean
from rubrics.items import Finding
from server.automedbench import detection, enhancement, report, segmentation, vqa
from server.automedbench.failures import failure_code
from server.automedbench.files import CaseFiles, InvalidOutput, links_below, names_folder, read_cases, read_plain
from server.automedbench.log import Log, read_log
from server.automedbench.stages import RunEvidence, Tier, decide
from server.automedbench.task import CaseRow, Graded, Task

__all__ = ["TASKS", "Tier", "score_run"]

TASKS: Mapping[str, Task] = {
    task.name: task for task in (segmentation.TASK, enhancement.TASK, detection.TASK, vqa.TASK, report.TASK)
}
"""Every task by its name."""

PLAN_BYTES, PICTURE_BYTES = 1 << 20, 64 << 20

SCHEMA_VERSION = 1


def score_run(run: Path, reference: Path, task_name: str, tier: Tier = Tier.STANDARD) -> dict[str, Json]:
    """Score an agent's run directory.

    Args:
        run: in AutoMedBench's public layout; whatever stands in it may be hostile.
        reference: one folder a case with the truth.
        task_name: a key of `TASKS`.
        tier: what the agent was given.

    Raises:
        DataError: the run is no folder, or the reference cannot be read.
    """
    if not run.is_dir():
        raise DataError("the run is not a folder", where=str(run), remedy="Give the agent's run directory.")
    task, log = TASKS[task_name], read_log(run)
    cases = read_cases(run, reference)
    rows, graded = _graded(task, cases)
    plan = read_plain(run, "plan/plan.md", PLAN_BYTES)
    evidence = RunEvidence(
        task=task,
        tier=tier,
        plan=None if plan is None else plan.decode("utf-8", "replace"),
        picture=read_plain(run, "plan/plan.png", PICTURE_BYTES),
        log=log,
        rows=rows,
    )
    breach = _breach(run, reference, log)
    decided = decide(evidence)
    scores = {stage: _stage_score(items, breach) for stage, items in decided.items()}
    whole = all(row.status == "scored" for row in rows)
    task_score = graded.score if whole and breach is None else 0.0
    agentic = weighted_stage_mean(scores)
    overall = task_score if agentic is None else 0.5 * task_score + 0.5 * agentic
    code, why = failure_code(log, rows, task_score, breach)
    return {
        "schema_version": SCHEMA_VERSION,
        "layout": "automedbench",
        "task": task.name,
        "tier": tier.value,
        "overall": overall,
        "agentic": agentic,
        "task_score": task_score,
        "task_metrics": dict(graded.metrics),
        "stage_scores": {stage.value: score for stage, score in scores.items()},
        "stages": {stage.value: _stage(scores[stage], items) for stage, items in decided.items()},
        "completion_rate": sum(row.status != "missing" for row in rows) / len(rows),
        "cases": [_row(row, cases[row.case]) for row in rows],
        "error_code": None if code is None else code.value,
        "error_reason": why or None,
        "isolation_breach": breach,
    }


def _graded(task: Task, cases: Mapping[str, CaseFiles]) -> tuple[tuple[CaseRow, ...], Graded]:
    valid: dict[str, tuple[Any, Any]] = {}
    failed: dict[str, CaseRow] = {}
    for name, case in cases.items():
        if not task.there(case.output, case.reference):
            failed[name] = CaseRow(name, "missing", f"no {task.wanted}")
            continue
        try:
            valid[name] = task.read(case)
        except InvalidOutput as error:
            failed[name] = CaseRow(name, "invalid", str(error))
        except DataError as error:
            raise DataError(error.what, where=error.where or name, remedy=error.remedy) from error
    graded = task.grade(valid) if valid else Graded(0.0, {}, {})
    scored = {name: CaseRow(name, "scored", "", graded.per_case[name]) for name in valid}
    return tuple({**failed, **scored}[name] for name in cases), graded


def _breach(run: Path, reference: Path, log: Log) -> str | None:
    """How the run reached for the truth, or out of its own folder, or `None`."""
    links = links_below(run)
    if links:
        return f"a link leads out of the run: {links[0]}"
    if any(names_folder(event.asked, run, reference) for event in log.events):
        return "an execution names the reference folder"
    return None


def _stage_score(items: list[tuple[str, str, Finding]], breach: str | None) -> float | None:
    values = [found.value for _, _, found in items if found.value is not None]
    if not values:
        return None
    return 0.0 if breach is not None else math.fsum(values) / len(values)


def _stage(score: float | None, items: list[tuple[str, str, Finding]]) -> Json:
    rows: list[Json] = [
        {"item": name, "question": asked, "value": found.value, "reason": found.reason} for name, asked, found in items
    ]
    return {"score": score, "items": rows}


def _row(row: CaseRow, case: CaseFiles) -> Json:
    digests: dict[str, Json] = {name: hashlib.sha256(data).hexdigest() for name, data in sorted(case.output.items())}
    return {
        "case": row.case,
        "status": row.status,
        "reason": row.reason or None,
        "metrics": dict(row.metrics),
        "files": digests,
    }
