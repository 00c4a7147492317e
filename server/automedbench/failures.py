"""The error code of a run: AutoMedBench's E1 to E5, by the earliest root cause."""

from __future__ import annotations

import re

from rubrics import FailureCategory
from server.automedbench.log import Event, Log
from server.automedbench.task import CaseRow

__all__ = ["failure_code"]

_RESOURCE = re.compile(
    r"out of memory|MemoryError|OutOfMemoryError|No space left|\bKilled\b|[Tt]imed? ?out|TimeoutExpired"
    r"|Cannot allocate memory"
)
_CLAIMS = re.compile(
    r"\b(?:done|complete[d]?|finished|saved|success\w*|submitted|all (?:cases|outputs))\b", re.IGNORECASE
)


def failure_code(
    log: Log, rows: tuple[CaseRow, ...], score: float, breach: str | None
) -> tuple[FailureCategory | None, str]:
    """The code, or `None` for a run in which nothing failed, and why.

    Args:
        log: executions.
        rows: what became of every case.
        score: the task's score in [0, 1].
        breach: how isolation was broken, or `None`.
    """
    if breach is not None:
        return FailureCategory.HALLUCINATION, f"results that are not the agent's own: {breach}"
    missing = [row.case for row in rows if row.status == "missing"]
    invalid = [row for row in rows if row.status == "invalid"]
    if missing:
        return _why_missing(log, missing)
    if invalid:
        return FailureCategory.FORMAT, f"{invalid[0].case}: {invalid[0].reason}"
    if score <= 0.0:
        return FailureCategory.LOGIC, "every output is valid, and none is right"
    return None, ""


def _why_missing(log: Log, missing: list[str]) -> tuple[FailureCategory, str]:
    """By the first execution that failed; without one, whether outputs were claimed that are not there."""
    first = next((event for event in log.events if event.failed), None)
    if first is not None:
        exhausted = _RESOURCE.search(first.output)
        if exhausted is not None:
            return FailureCategory.RESOURCE, f"an execution ran out of resources: {exhausted.group()}"
        return FailureCategory.CODE, f"an execution failed: {_last_line(first)}"
    if _CLAIMS.search(log.last_words):
        return FailureCategory.HALLUCINATION, f"completion is claimed, but {', '.join(missing[:5])} has no output"
    return FailureCategory.LOGIC, f"no output was made for {', '.join(missing[:5])}"


def _last_line(event: Event) -> str:
    lines = event.output.strip().splitlines()
    return lines[-1][:200] if lines else "no output"
