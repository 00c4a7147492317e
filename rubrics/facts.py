"""Facts that both rubrics, for training and for evaluation, build on; each is one question about the evidence."""

from __future__ import annotations

from collections.abc import Mapping

from rubrics.evidence import Evidence, pick
from rubrics.layout import BATCH, CHECK, PILOT, PILOT_RECORD, PLAN, SETUP, VERIFY, under

__all__ = [
    "AGREEMENT",
    "agrees",
    "all_valid",
    "batch_identical",
    "checked",
    "mean_score",
    "pilot_agrees",
    "pilot_inspected",
    "pilot_made_at",
    "second_view_agrees",
    "set_up",
    "set_up_properly",
    "task_outcome",
]

AGREEMENT = 0.8
"""Mean score in [0, 1] from which outputs count as agreeing with the reference (a right choice gives at least 0.9,
a wrong level about 0.75 or less, a wrong method or polarity 0.35 or less)."""


def mean_score(scores: Mapping[str, float | None]) -> float | None:
    """Mean over the cases, or `None` when there is none or one of them is missing or invalid."""
    values = list(scores.values())
    present = [value for value in values if value is not None]
    return sum(present) / len(present) if values and len(present) == len(values) else None


def agrees(scores: Mapping[str, float | None]) -> bool:
    """Whether every case is valid and their mean agrees with the reference."""
    mean = mean_score(scores)
    return mean is not None and mean >= AGREEMENT


def checked(evidence: Evidence) -> bool:
    """Whether plan and data were really compared under the plan that stands."""
    expected = pick(evidence.rerun.digests, CHECK)
    return evidence.plan_stands and evidence.made_at(expected, verb="check") is not None


def set_up(evidence: Evidence) -> int | None:
    """When the set-up that stands at the end was really run."""
    expected = pick(evidence.rerun.digests, SETUP)
    if evidence.final_digests.get(SETUP) != expected.get(SETUP):
        return None
    return evidence.made_at(expected, verb="setup")


def set_up_properly(evidence: Evidence) -> bool:
    """Whether the set-up was run in this rollout, after the plan that stands, and loads the inputs right."""
    at = set_up(evidence)
    planned = evidence.last_touch(*PLAN)
    return at is not None and evidence.proper("repair") and (planned is None or at >= planned)


def pilot_made_at(evidence: Evidence) -> int | None:
    """When one case really ran end to end under the pipeline that stands, before any of the batch."""
    digests = evidence.rerun.digests
    expected = pick(digests, PILOT_RECORD) | under(PILOT, digests)
    if PILOT_RECORD not in expected or len(expected) < 2:
        return None
    at = evidence.made_at(expected)
    batch = evidence.first_touch(BATCH)
    return at if at is not None and (batch is None or at < batch) else None


def pilot_inspected(evidence: Evidence) -> bool:
    """Whether the pilot's output was really looked at afterwards."""
    at = pilot_made_at(evidence)
    expected = pick(evidence.rerun.digests, VERIFY)
    return at is not None and evidence.made_at(expected, verb="verify", start=at) is not None


def pilot_agrees(evidence: Evidence) -> bool:
    """Whether the pilot's genuine output agrees with the reference."""
    scores = [score for score in evidence.rerun.pilot_scores.values() if score is not None]
    return pilot_made_at(evidence) is not None and bool(scores) and sum(scores) / len(scores) >= AGREEMENT


def batch_identical(evidence: Evidence) -> bool:
    """Whether the batch at the end is, file for file, what the pipeline gives."""
    found = under(BATCH, evidence.final_digests)
    return evidence.completed == 1.0 and found == under(BATCH, evidence.rerun.digests)


def all_valid(evidence: Evidence, scores: Mapping[str, float | None]) -> bool:
    """Whether every case has a valid output, made from inputs that were loaded right."""
    return mean_score(scores) is not None and evidence.proper("repair")


def second_view_agrees(evidence: Evidence) -> bool | None:
    """Whether the same pipeline also agrees with the reference on the second view; `None` where there is none."""
    if evidence.task.second is None:
        return None
    return evidence.second is not None and agrees(evidence.second.batch_scores)


def task_outcome(evidence: Evidence) -> float:
    """Mean task score of a genuine, complete and valid submission; 0 for any other (as AutoMedBench does)."""
    if evidence.breach is not None or not evidence.submission_genuine:
        return 0.0
    return mean_score(evidence.rerun.submitted_scores) or 0.0
