from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest

from common.errors import SandboxError
from common.sandbox import Sandbox
from common.signing import SigningKey
from common.stages import Focus, Outcome, Track
from rubrics import Extent, Replayer
from rubrics.artifacts import Pipeline
from rubrics.evidence import Task
from rubrics.facts import mean_score
from stage_bank.state import TrainingState
from stage_bank.tasks import task_of
from stage_bank.toolkit import open_toolkit_sandbox

MakeState = Callable[..., TrainingState]


@pytest.fixture(scope="module")
def task(make_state: MakeState) -> Task:
    return task_of(make_state(Track.SEGMENTATION, Focus.E2E, Outcome.SUCCESS))


def test_equal_questions_are_answered_once(task: Task, toolkit_sandbox: Sandbox) -> None:
    replayer = Replayer(toolkit_sandbox)
    scored = []

    def score(
        files: Mapping[str, bytes], inputs: Mapping[str, bytes], references: Mapping[str, bytes], folder: str
    ) -> dict[str, float | None]:
        scored.append(folder)
        return task.score(files, inputs, references, folder)

    pipeline = Pipeline(task.right, 3)
    with ThreadPoolExecutor(8) as pool:
        jobs = [pool.submit(replayer.rerun, task.view, pipeline, Extent.SUBMIT, score) for _ in range(16)]
        answers = [job.result() for job in jobs]
    assert len(scored) == 3
    assert all(answer is answers[0] for answer in answers)


def test_two_replayers_agree_to_the_byte(task: Task, toolkit_sandbox: Sandbox) -> None:
    pipeline = Pipeline(task.right, 3)
    first, second = (Replayer(toolkit_sandbox).rerun(task.view, pipeline, Extent.SUBMIT, task.score) for _ in range(2))
    assert first == second
    assert (mean_score(first.submitted_scores) or 0.0) >= 0.9


def test_the_right_pipeline_holds_on_the_second_view_and_a_wrong_one_does_not(task: Task, replayer: Replayer) -> None:
    assert task.second is not None
    good = replayer.batch(task.second, Pipeline(task.right, 3), task.score)
    polarity = "keep" if task.right["polarity"] == "invert" else "invert"
    bad = replayer.batch(task.second, Pipeline({**task.right, "polarity": polarity}, 3), task.score)
    assert (mean_score(good.batch_scores) or 0.0) >= 0.9
    assert (mean_score(bad.batch_scores) or 0.0) <= 0.5


def test_the_memory_is_bounded(task: Task, toolkit_sandbox: Sandbox) -> None:
    replayer = Replayer(toolkit_sandbox, capacity=2)
    for candidates in (1, 2, 3):
        replayer.rerun(task.view, Pipeline(task.right, candidates), Extent.SETUP, task.score)
    assert len(replayer._memory) == 2


def test_a_broken_sandbox_is_not_remembered_as_an_answer(task: Task) -> None:
    sandbox = open_toolkit_sandbox(SigningKey.generate())
    replayer = Replayer(sandbox)
    sandbox.close()
    for _ in range(2):
        with pytest.raises(SandboxError):
            replayer.rerun(task.view, Pipeline(task.right, 3), Extent.SETUP, task.score)
    assert len(replayer._memory) == 0
