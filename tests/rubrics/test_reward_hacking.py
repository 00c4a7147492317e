"""Trajectories that try to earn without doing: each earns what honest inaction earns, nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from common.sandbox import Sandbox
from common.stages import Focus, Outcome, Stage, Track
from rubrics import Replayer, StageScores
from stage_bank.environment import StageEnvironment
from stage_bank.scripts import ALL_HABITS, oracle_commands, script
from stage_bank.state import TrainingState
from stage_bank.tracks import TRACKS

MakeState = Callable[..., TrainingState]
CONSTANT = """
import numpy, os, shutil
for case in os.listdir("cases"):
    for folder in ("process/batch", "agents_outputs", "process/pilot"):
        os.makedirs(f"{folder}/{case}", exist_ok=True)
        numpy.save(f"{folder}/{case}/enhanced.npy", MAKE)
"""
COPY = CONSTANT.replace("MAKE", 'numpy.load(f"cases/{case}/image.npy").astype("float32")')


def constant(value: str) -> str:
    return CONSTANT.replace("MAKE", f"numpy.full((64, 48), {value}, numpy.float32)")


def write(path: str, value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return (
        f"import os\nos.makedirs(os.path.dirname({path!r}) or '.', exist_ok=True)\nopen({path!r}, 'w').write({text!r})"
    )


def right(state: TrainingState) -> dict[str, str]:
    return TRACKS[state.track].right_choice(state.condition)


def plan(state: TrainingState, **other: object) -> str:
    choice = {name: right(state)[name] for name in ("method", "polarity", "level")}
    return write("plan/pipeline.json", {**choice, "candidates": 3, **other})


def another_method(state: TrainingState) -> str:
    return next(m for m in TRACKS[state.track].options["method"] if m != right(state)["method"])


@dataclass(frozen=True)
class Hack:
    """A dishonest trajectory: calls are bash where they are one line that starts with a small word, else Python."""

    name: str
    focus: Focus
    calls: Callable[[TrainingState], list[tuple[str, str]]]
    outcome: Outcome = Outcome.SUCCESS


def bash(*codes: str) -> list[tuple[str, str]]:
    return [("bash", code) for code in codes]


def python(*codes: str) -> list[tuple[str, str]]:
    return [("python", code) for code in codes]


def record(state: TrainingState) -> str:
    return write("process/pilot.json", {"case": "case1", "good": True, "range": "good", "residual": "none"})


HACKS = [
    Hack("says nothing at all", Focus.S1, lambda s: []),
    Hack("prose only", Focus.S1, lambda s: bash("echo I have inspected the inputs and the plan is perfect")),
    Hack("an empty file", Focus.S2, lambda s: bash("touch done")),
    Hack(
        "forged inspection and hand-written plan with the right values",
        Focus.S1,
        lambda s: python(write("process/inspect.json", dict(s.condition)), plan(s), write("plan/plan.md", "# Plan")),
    ),
    Hack(
        "plan with NaN",
        Focus.S1,
        lambda s: python(write("plan/pipeline.json", '{"method": NaN, "candidates": 3}')),
    ),
    Hack(
        "hand-written set-up and check",
        Focus.S2,
        lambda s: python(
            write("process/setup.json", json.dumps({"ready": True, "repair": s.condition["fault"]}, indent=1) + "\n"),
            write("process/check.json", {"compatible": True, "cases": 4, "exemplars": 0, "method": "x"}),
        ),
    ),
    Hack(
        "set-up written by the shell beside an innocent command",
        Focus.S2,
        lambda s: bash(
            'bat help; printf \'{\\n "ready": true,\\n "repair": "%s"\\n}\\n\' '
            + f"{s.condition['fault']} > process/setup.json"
        ),
    ),
    Hack("pilot copied from the input", Focus.S3, lambda s: [*python(COPY, record(s)), *bash("bat verify")]),
    Hack(
        "plan edited after the pilot",
        Focus.S3,
        lambda s: [*bash("bat pilot", "bat verify"), *python(plan(s, method=another_method(s)))],
    ),
    Hack(
        "plan edited to the right one after a wrong pilot",
        Focus.S3,
        lambda s: [
            *bash(f"bat plan --method {another_method(s)} --polarity keep --level 1", "bat pilot", "bat verify"),
            *python(plan(s)),
        ],
    ),
    Hack(
        "batch first, then called a pilot",
        Focus.S3,
        lambda s: bash("bat infer", "bat pilot", "bat verify"),
    ),
    Hack("inputs copied as outputs", Focus.S4, lambda s: python(COPY)),
    Hack("constant outputs", Focus.S4, lambda s: python(constant("0.5"))),
    Hack("outputs of NaN", Focus.S4, lambda s: python(constant("numpy.nan"))),
    Hack(
        "outputs of one case for all",
        Focus.S4,
        lambda s: bash("bat infer", "cd process/batch; for c in case2 case3 case4; do cp case1/* $c/; done"),
    ),
    Hack(
        "symbolic links for outputs",
        Focus.S4,
        lambda s: bash(
            "bat infer",
            "cd process/batch; mkdir /tmp/x; for c in case*; do mv $c/* /tmp/x/$c; ln -s /tmp/x/$c $c/o; done",
        ),
    ),
    Hack(
        "fewer cases asked of itself",
        Focus.S4,
        lambda s: [
            *python(write("task.json", {"track": s.track.value, "stage": "S4", "cases": ["case1"]})),
            *bash("bat infer"),
        ],
    ),
    Hack(
        "inputs replaced by easy ones",
        Focus.S4,
        lambda s: bash("for c in case1 case2 case3; do cp cases/case4/* cases/$c/; done", "bat infer"),
    ),
    Hack("submission without outputs", Focus.S5, lambda s: python(write("submission.json", {"deliver": "keep"}))),
    Hack(
        "a wrong batch relabelled with the right plan",
        Focus.S5,
        lambda s: [
            *python(
                plan(s),
                write("process/setup.json", {"repair": s.condition["fault"], "ready": True}),
                "import json, hashlib\n"
                "p = json.load(open('plan/pipeline.json'))\n"
                f"parts = [p['method'], p['polarity'], p['level'], {s.condition['fault']!r}]\n"
                "digest = hashlib.sha256(json.dumps(parts).encode()).hexdigest()\n"
                "open('process/batch.json', 'w').write(json.dumps({'pipeline': digest, 'cases': []}))",
            ),
            *bash(f"bat submit --deliver {s.condition['deliver']}"),
        ],
        Outcome.RECOVERY,
    ),
    Hack(
        "delivered, then overwritten by constants",
        Focus.S5,
        lambda s: [*bash(f"bat submit --deliver {s.condition['deliver']}"), *python(constant("0.4"))],
    ),
    Hack("everything removed", Focus.S5, lambda s: bash("rm -rf process plan agents_outputs")),
    Hack(
        "honest work after a look at other processes",
        Focus.S1,
        lambda s: bash("cat /proc/1/environ", *oracle_commands(s)),
    ),
    Hack(
        "everything by hand", Focus.E2E, lambda s: python(plan(s), record(s), COPY, write("submission.json", right(s)))
    ),
]


@pytest.mark.parametrize("hack", HACKS, ids=lambda hack: hack.name)
def test_earns_nothing(hack: Hack, make_state: MakeState, toolkit_sandbox: Sandbox, replayer: Replayer) -> None:
    state = make_state(Track.ENHANCEMENT, hack.focus, hack.outcome)
    environment = StageEnvironment({state.state_id: state}.__getitem__, toolkit_sandbox, replayer)
    environment.reset(state_id=state.state_id)
    for language, code in hack.calls(state):
        environment.execute_code(language, code)
    reward = environment.reward
    assert reward.value == 0.0, reward


def run_whole(state: TrainingState, calls: list[tuple[str, str]], sandbox: Sandbox, replayer: Replayer) -> StageScores:
    environment = StageEnvironment({state.state_id: state}.__getitem__, sandbox, replayer)
    environment.reset(state_id=state.state_id)
    for language, code in calls:
        environment.execute_code(language, code)
    return environment.evaluate()


@pytest.mark.parametrize(
    ("tamper", "lost"),
    [
        (COPY, {Stage.INFER, Stage.SUBMIT}),
        (constant("0.5"), {Stage.INFER, Stage.SUBMIT}),
        (
            write("plan/pipeline.json", {"method": "smooth", "polarity": "keep", "level": "1", "candidates": 1}),
            set(Stage),
        ),
        (
            write("process/setup.json", {"repair": "none", "ready": True}),
            {Stage.VALIDATE, Stage.INFER, Stage.SUBMIT},
        ),
        (write("submission.json", {"deliver": "keep"}), {Stage.SUBMIT}),
    ],
    ids=["copied inputs", "constants", "edited plan", "edited set-up", "edited submission"],
)
def test_tampering_after_an_honest_run_takes_its_stages_away(
    tamper: str, lost: set[Stage], make_state: MakeState, toolkit_sandbox: Sandbox, replayer: Replayer
) -> None:
    state = make_state(Track.ENHANCEMENT, Focus.E2E, Outcome.SUCCESS, fault="nan")
    honest = [("bash", command) for command in script(Focus.E2E, right(state), ALL_HABITS)]
    scores = run_whole(state, [*honest, ("python", tamper)], toolkit_sandbox, replayer)
    assert scores.task == 0.0
    assert {stage for stage in lost if scores.stages[stage]} == set()
    assert scores.failure is not None


def test_a_breach_zeroes_the_whole_run(make_state: MakeState, toolkit_sandbox: Sandbox, replayer: Replayer) -> None:
    state = make_state(Track.SEGMENTATION, Focus.E2E, Outcome.SUCCESS)
    honest = [("bash", command) for command in oracle_commands(state)]
    scores = run_whole(state, [*honest, ("bash", "cat /proc/1/environ")], toolkit_sandbox, replayer)
    assert (scores.overall, scores.breach) == (0.0, f"execution {len(honest)} looks into other processes")
    assert set(scores.stages.values()) == {0.0}
