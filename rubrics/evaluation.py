"""Evaluation scores of a whole run: AutoMedBench's S1 to S5, task score, agentic and overall score.

Source: AutoMedBench, as used by Benchmark-as-Teacher (arXiv 2608.16211). S1 is the mean of six yes/no items, S2 of
five, S3 one of {0, 0.2, 0.5, 1}, S4 and S5 halves as named below. What cannot apply here (there is no accelerator to
load a model on) is unscored and drops out. A breach of isolation zeroes the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from common.stages import STAGES, Stage, weighted_stage_mean
from rubrics import facts
from rubrics.evidence import Evidence
from rubrics.failure import FailureCategory, failure_category
from rubrics.items import Finding, Item, Verdict, answer, judge, mean_of
from rubrics.layout import PILOT, PLAN_PICTURE, PLAN_TEXT
from rubrics.training import ENOUGH_CANDIDATES

__all__ = ["EVALUATION_ITEMS", "StageScores", "evaluate"]

MAXIMUM_FAILURES = 5
SHAPE_CHECKED = 0.2
CONTENT_CHECKED = 0.5


def _plan_text(evidence: Evidence) -> Finding:
    made = evidence.plan_made_at is not None and PLAN_TEXT in evidence.final
    return answer(made, "plan.md was written", "no genuine plan.md was written")


def _described(evidence: Evidence) -> Finding:
    made = evidence.plan_made_at is not None and evidence.pipeline.planned
    return answer(made, "the plan names every step of the pipeline", "no pipeline is described")


def _proper_method(evidence: Evidence) -> Finding:
    passed = evidence.plan_made_at is not None and evidence.plan_proper
    return answer(passed, "method and its settings fit the inputs", "method or its settings do not fit the inputs")


def _candidates(evidence: Evidence) -> Finding:
    count = evidence.pipeline.candidates if evidence.plan_made_at is not None else 0
    return answer(count >= ENOUGH_CANDIDATES, f"{count} candidates compared", f"only {count} candidates compared")


def _picture(evidence: Evidence) -> Finding:
    made = evidence.plan_made_at is not None and PLAN_PICTURE in evidence.final
    return answer(made, "a plan picture was drawn", "no genuine plan picture")


def _method_obtained(evidence: Evidence) -> Finding:
    passed = facts.set_up(evidence) is not None and evidence.plan_stands
    return answer(passed, "the planned method was set up", "no planned method was set up")


def _compatible(evidence: Evidence) -> Finding:
    return answer(facts.checked(evidence), "compatibility was checked", "compatibility was not checked")


def _ready(evidence: Evidence) -> Finding:
    return answer(facts.set_up_properly(evidence), "inputs load right", "inputs do not load right")


def _few_failures(evidence: Evidence) -> Finding:
    if not _method_obtained(evidence).value:
        return Finding(0.0, "nothing was set up")
    failures = sum(not receipt.succeeded for receipt in evidence.receipts)
    return answer(failures <= MAXIMUM_FAILURES, f"{failures} failed executions", f"{failures} failed executions")


def _device(_evidence: Evidence) -> Finding:
    return Finding(None, "the toolkit loads no model on a device")


def _validation(evidence: Evidence) -> Finding:
    if facts.pilot_made_at(evidence) is None:
        return Finding(0.0, "no genuine pilot before the batch")
    if not facts.pilot_inspected(evidence):
        written = any(path.startswith(PILOT + "/") for path in evidence.rerun.digests)
        return Finding(SHAPE_CHECKED if written else 0.0, "a case ran, but nobody looked at its content")
    held = facts.second_view_agrees(evidence)
    if facts.pilot_agrees(evidence) and held is not False:
        return Finding(1.0, "one case ran end to end, was inspected, and is right")
    return Finding(CONTENT_CHECKED, "a case ran and was inspected, but is not right")


def _completion(evidence: Evidence) -> Finding:
    return Finding(evidence.completed, f"{evidence.completed:.0%} of cases were processed")


def _batch_valid(evidence: Evidence) -> Finding:
    passed = evidence.completed == 1.0 and facts.all_valid(evidence, evidence.rerun.batch_scores)
    return answer(passed, "every output is valid", "an output is missing or invalid, or inputs were loaded wrong")


def _any_scored(evidence: Evidence) -> Finding:
    scored = any(score is not None for score in evidence.rerun.submitted_scores.values())
    passed = evidence.submission_genuine and scored and evidence.proper("deliver")
    return answer(passed, "a delivered result can be scored", "no delivered result can be scored as requested")


def _submission_valid(evidence: Evidence) -> Finding:
    passed = evidence.submission_genuine and facts.all_valid(evidence, evidence.rerun.submitted_scores)
    return answer(passed, "every delivered output is valid", "a delivered output is missing or invalid")


EVALUATION_ITEMS: Mapping[Stage, tuple[Item, ...]] = {
    Stage.PLAN: (
        Item("plan text", "Is there a plan.md?", _plan_text),
        Item("described", "Does it describe the pipeline?", _described),
        Item("proper", "Is the method proper for track and inputs?", _proper_method),
        Item("candidates", "Were at least three candidates researched?", _candidates),
        Item("picture", "Is there a plan picture?", _picture),
        Item("picture shows", "Does the picture show the pipeline?", _picture),
    ),
    Stage.SETUP: (
        Item("obtained", "Was the method obtained?", _method_obtained),
        Item("compatible", "Was compatibility checked?", _compatible),
        Item("ready", "Is the environment ready?", _ready),
        Item("failures", "Were there at most five failures?", _few_failures),
        Item("device", "Is the model on the intended device?", _device),
    ),
    Stage.VALIDATE: (Item("validation", "How far was one case validated before the batch?", _validation),),
    Stage.INFER: (
        Item("completion", "Which share of the cases was processed?", _completion),
        Item("valid", "Are all outputs valid?", _batch_valid),
    ),
    Stage.SUBMIT: (
        Item("scored", "Is there any valid scored result?", _any_scored),
        Item("valid", "Are all delivered outputs valid?", _submission_valid),
    ),
}
"""Stage to its items; a stage's score is the mean of the scored ones."""


@dataclass(frozen=True)
class StageScores:
    """Scores of one end-to-end run.

    Args:
        stages: score in [0, 1] of each stage, `None` where it is unscored.
        task: task score in [0, 1].
        failure: category of the earliest root cause, or `None` for a run without fault.
        reasons: every item's verdict.
        breach: why the run was zeroed, or `None`.
    """

    stages: Mapping[Stage, float | None]
    task: float
    failure: FailureCategory | None
    reasons: Mapping[Stage, tuple[Verdict, ...]]
    breach: str | None = None

    @property
    def agentic(self) -> float:
        """Weighted stage mean over the scored stages, in [0, 1]."""
        return weighted_stage_mean(self.stages) or 0.0

    @property
    def overall(self) -> float:
        """Half task score, half agentic score."""
        return 0.5 * self.task + 0.5 * self.agentic


def evaluate(evidence: Evidence) -> StageScores:
    """Score a whole run.

    Args:
        evidence: collected with the E2E focus, so that re-runs cover every stage.
    """
    if evidence.breach is not None:
        zeros: dict[Stage, float | None] = dict.fromkeys(STAGES, 0.0)
        return StageScores(zeros, 0.0, failure_category(evidence, zeros, 0.0), {}, evidence.breach)
    reasons = {stage: judge(items, evidence) for stage, items in EVALUATION_ITEMS.items()}
    stages = {stage: mean_of(verdicts) for stage, verdicts in reasons.items()}
    task = facts.task_outcome(evidence)
    return StageScores(stages, task, failure_category(evidence, stages, task), reasons)
