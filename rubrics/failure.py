"""The category of a run's earliest root cause: AutoMedBench's error codes E1 to E5."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum

from common.sandbox.receipt import Receipt
from common.stages import STAGES, Stage
from rubrics.evidence import Evidence
from rubrics.facts import AGREEMENT
from rubrics.layout import (
    BATCH,
    CHECK,
    INSPECT,
    PILOT,
    PILOT_RECORD,
    PIPELINE,
    PLAN_PICTURE,
    PLAN_TEXT,
    SETUP,
    SUBMISSION,
    SUBMITTED,
    VERIFY,
    is_input,
)

__all__ = ["FailureCategory", "failure_category"]


class FailureCategory(StrEnum):
    """What a failed run failed by."""

    HALLUCINATION = "E1"
    """Claims without the act: files or inputs that the toolkit did not make."""
    RESOURCE = "E2"
    """Time, memory or space ran out."""
    LOGIC = "E3"
    """Valid acts with a wrong choice, or a missing step."""
    CODE = "E4"
    """Code that does not run."""
    FORMAT = "E5"
    """Something was made, but not in the form that was asked for."""


_OWNED: Mapping[Stage, tuple[str, ...]] = {
    Stage.PLAN: (INSPECT, PIPELINE, PLAN_TEXT, PLAN_PICTURE),
    Stage.SETUP: (CHECK, SETUP),
    Stage.VALIDATE: (PILOT_RECORD, PILOT + "/", VERIFY),
    Stage.INFER: (BATCH + "/",),
    Stage.SUBMIT: (SUBMISSION, SUBMITTED + "/"),
}
_EXHAUSTED = re.compile(r"MemoryError|No space left|Cannot allocate memory|Too many open files|File too large")
_KILLED = (-9, -24, 137, 152)
_USAGE = 2


def failure_category(evidence: Evidence, stages: Mapping[Stage, float | None], task: float) -> FailureCategory | None:
    """Category of the first thing that went wrong, in order of the workflow.

    Args:
        evidence: of the run.
        stages: its stage scores.
        task: its task score in [0, 1].

    Returns:
        `None` when every scored stage is whole and the task score agrees with the reference.
    """
    if evidence.breach is not None or any(is_input(p) for receipt in evidence.receipts for p in receipt.changed):
        return FailureCategory.HALLUCINATION
    for stage in STAGES:
        score = stages.get(stage)
        if score is not None and score < 1.0:
            return _of_stage(evidence, stage)
    return None if task >= AGREEMENT else FailureCategory.LOGIC


def _of_stage(evidence: Evidence, stage: Stage) -> FailureCategory:
    if any(_exhausted(receipt) for receipt in evidence.receipts):
        return FailureCategory.RESOURCE
    claimed = _claimed(evidence, stage)
    genuine = evidence.rerun.digests
    if any(path not in genuine for path in claimed):
        return FailureCategory.FORMAT if _made_something(evidence, stage) else FailureCategory.HALLUCINATION
    if any(evidence.final_digests[path] != genuine[path] for path in claimed if path not in (VERIFY, PILOT_RECORD)):
        return FailureCategory.HALLUCINATION
    if any(_broken(receipt) for receipt in evidence.receipts):
        return FailureCategory.CODE
    return FailureCategory.LOGIC


def _claimed(evidence: Evidence, stage: Stage) -> list[str]:
    """Files of the stage that this run wrote and that stand at the end."""
    owned = _OWNED[stage]
    written = {path for receipt in evidence.receipts for path, digest in receipt.changed.items() if digest is not None}
    return sorted(p for p in written & evidence.final.keys() if p in owned or p.startswith(_folders(owned)))


def _folders(owned: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(path for path in owned if path.endswith("/"))


def _made_something(evidence: Evidence, stage: Stage) -> bool:
    """Whether an expected folder of the stage holds a genuine file beside what does not belong there."""
    genuine = evidence.rerun.digests
    return any(evidence.final_digests[path] == genuine.get(path) for path in _claimed(evidence, stage))


def _exhausted(receipt: Receipt) -> bool:
    return receipt.timed_out or receipt.exit_status in _KILLED or _EXHAUSTED.search(receipt.output) is not None


def _broken(receipt: Receipt) -> bool:
    """A command that could not run: wrong usage, unknown program or a traceback; status 1 is the toolkit saying no."""
    return receipt.exit_status >= _USAGE or "Traceback (most recent call last)" in receipt.output
