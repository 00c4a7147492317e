"""The training reward: equal-weight yes/no items per stage, with verified execution required.

Source: Benchmark-as-Teacher (arXiv 2608.16211). Every item of a stage needs that stage's own act to have been done in
this rollout, as the re-run shows; nothing is earned by files that merely lie there. E2E is half the weighted stage
mean and half the task outcome.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from common.stages import STAGES, Focus, Stage, weighted_stage_mean
from rubrics import facts
from rubrics.evidence import Evidence
from rubrics.items import Finding, Item, Verdict, answer, judge, mean_of

__all__ = ["TRAINING_ITEMS", "TrainingReward", "training_reward"]

ENOUGH_CANDIDATES = 3


def _inspected_before_planning(evidence: Evidence) -> Finding:
    looked, planned = evidence.inspected_at, evidence.plan_made_at
    passed = looked is not None and planned is not None and looked < planned
    return answer(passed, "inputs were inspected before the plan", "no inspection before a plan of this rollout")


def _candidates(evidence: Evidence) -> Finding:
    count = evidence.pipeline.candidates if evidence.plan_made_at is not None else 0
    return answer(count >= ENOUGH_CANDIDATES, f"{count} candidates compared", f"only {count} candidates compared")


def _planned_proper(option: str) -> Item:
    def decide(evidence: Evidence) -> Finding:
        if evidence.plan_made_at is None:
            return Finding(0.0, "no genuine plan was made")
        return answer(evidence.proper(option), f"{option} fits the inputs", f"{option} does not fit the inputs")

    return Item(f"{option} proper", f"Does the planned {option} fit the inputs?", decide)


def _checked(evidence: Evidence) -> Finding:
    return answer(facts.checked(evidence), "plan was checked against the data", "plan was not checked against the data")


def _repair(evidence: Evidence) -> Finding:
    passed = facts.set_up(evidence) is not None and evidence.proper("repair")
    return answer(passed, "set-up loads the inputs right", "no set-up of this rollout loads the inputs right")


def _plan_in_force(evidence: Evidence) -> Finding:
    acted = facts.set_up(evidence) is not None or facts.checked(evidence)
    return answer(acted and evidence.plan_proper, "the plan in force fits the inputs", "no fitting plan is in force")


def _ready(evidence: Evidence) -> Finding:
    passed = facts.set_up_properly(evidence) and evidence.plan_proper
    return answer(passed, "ready to run", "set-up and plan in force are not both right")


def _pilot_ran(evidence: Evidence) -> Finding:
    passed = facts.pilot_made_at(evidence) is not None
    return answer(passed, "one case ran end to end before the batch", "no genuine pilot before the batch")


def _pilot_inspected(evidence: Evidence) -> Finding:
    return answer(facts.pilot_inspected(evidence), "its output was inspected", "no pilot output was inspected")


def _pilot_agrees(evidence: Evidence) -> Finding:
    passed = facts.pilot_agrees(evidence)
    return answer(passed, "the pilot agrees with the reference", "no pilot agrees with the reference")


def _pilot_holds(evidence: Evidence) -> Finding:
    return _second_view(evidence, facts.pilot_made_at(evidence) is not None)


def _completed(evidence: Evidence) -> Finding:
    return answer(
        evidence.completed == 1.0, "every case was processed", f"{evidence.completed:.0%} of cases were processed"
    )


def _batch_valid(evidence: Evidence) -> Finding:
    passed = evidence.completed == 1.0 and facts.all_valid(evidence, evidence.rerun.batch_scores)
    return answer(passed, "every output is valid", "an output is missing or invalid, or inputs were loaded wrong")


def _batch_agrees(evidence: Evidence) -> Finding:
    passed = facts.batch_identical(evidence) and facts.agrees(evidence.rerun.batch_scores)
    return answer(passed, "outputs agree with the reference", "no genuine outputs that agree with the reference")


def _batch_holds(evidence: Evidence) -> Finding:
    return _second_view(evidence, facts.batch_identical(evidence))


def _second_view(evidence: Evidence, genuine: bool) -> Finding:
    held = facts.second_view_agrees(evidence)
    if held is None:
        return Finding(None, "there is no second view")
    return answer(genuine and held, "holds on another view of the patient", "does not hold on another view, or not run")


def _submitted(evidence: Evidence) -> Finding:
    return answer(evidence.submission_genuine, "submission is complete", "no genuine and complete submission")


def _deliver(evidence: Evidence) -> Finding:
    passed = evidence.submission_genuine and evidence.proper("deliver")
    return answer(passed, "delivered in the requested form", "not delivered in the requested form")


def _submission_valid(evidence: Evidence) -> Finding:
    passed = evidence.submission_genuine and facts.all_valid(evidence, evidence.rerun.submitted_scores)
    return answer(passed, "every delivered output is valid", "a delivered output is missing or invalid")


def _task_good(evidence: Evidence) -> Finding:
    outcome = facts.task_outcome(evidence)
    return answer(outcome >= facts.AGREEMENT, f"task score {outcome:.2f}", f"task score only {outcome:.2f}")


TRAINING_ITEMS: Mapping[Stage, tuple[Item, ...]] = {
    Stage.PLAN: (
        Item("inspected", "Were the inputs inspected before planning?", _inspected_before_planning),
        Item("candidates", "Were at least three candidates compared?", _candidates),
        _planned_proper("method"),
        _planned_proper("polarity"),
        _planned_proper("level"),
    ),
    Stage.SETUP: (
        Item("checked", "Was the plan checked against the data?", _checked),
        Item("repair proper", "Does the set-up load the inputs right?", _repair),
        Item("plan proper", "Does the plan in force fit the inputs?", _plan_in_force),
        Item("ready", "Are set-up and plan together ready to run?", _ready),
    ),
    Stage.VALIDATE: (
        Item("pilot", "Did one case run end to end before the batch?", _pilot_ran),
        Item("inspected", "Was the pilot's output inspected?", _pilot_inspected),
        Item("agrees", "Does the pilot agree with the reference?", _pilot_agrees),
        Item("holds", "Does the pipeline hold on a second view?", _pilot_holds),
    ),
    Stage.INFER: (
        Item("completed", "Was every case processed?", _completed),
        Item("valid", "Is every output valid?", _batch_valid),
        Item("agrees", "Do the outputs agree with the reference?", _batch_agrees),
        Item("holds", "Does the pipeline hold on a second view?", _batch_holds),
    ),
    Stage.SUBMIT: (
        Item("complete", "Is the submission complete?", _submitted),
        Item("deliver proper", "Is it delivered in the requested form?", _deliver),
        Item("valid", "Is every delivered output valid?", _submission_valid),
        Item("good", "Is the task score good?", _task_good),
    ),
}
"""Stage to its yes/no items, all of one weight."""


@dataclass(frozen=True)
class TrainingReward:
    """What a rollout earned, and why.

    Args:
        value: reward in [0, 1].
        stages: verdicts of the stages that counted.
        reason: why nothing was earned at all; empty otherwise.
    """

    value: float
    stages: Mapping[Stage, tuple[Verdict, ...]] = field(default_factory=dict)
    reason: str = ""


def training_reward(evidence: Evidence) -> TrainingReward:
    """Reward of one rollout in [0, 1].

    Args:
        evidence: of the rollout.

    Returns:
        Zero without a successful execution and a change of the workspace, and zero for a breach of isolation.
    """
    if evidence.breach is not None:
        return TrainingReward(0.0, reason=evidence.breach)
    if not evidence.acted:
        return TrainingReward(0.0, reason="nothing was executed with success, or nothing changed")
    focus = evidence.task.focus
    counted = STAGES if focus is Focus.E2E else (Stage(focus.value),)
    stages = {stage: judge(TRAINING_ITEMS[stage], evidence) for stage in counted}
    mean = weighted_stage_mean({stage: mean_of(verdicts) for stage, verdicts in stages.items()}) or 0.0
    value = 0.5 * mean + 0.5 * facts.task_outcome(evidence) if focus is Focus.E2E else mean
    return TrainingReward(value, stages)
