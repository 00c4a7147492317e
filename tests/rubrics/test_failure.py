"""Categories of the earliest root cause, from real runs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from common.sandbox import Sandbox
from common.stages import Focus, Outcome, Track
from rubrics import FailureCategory, Replayer
from stage_bank.environment import StageEnvironment
from stage_bank.scripts import script
from stage_bank.state import TrainingState
from stage_bank.tracks import TRACKS

MakeState = Callable[..., TrainingState]


def honest(state: TrainingState, **other: str) -> list[tuple[str, str]]:
    choice = {**TRACKS[state.track].right_choice(state.condition), **other}
    return [("bash", command) for command in script(Focus.E2E, choice)]


def wrong_level(state: TrainingState) -> list[tuple[str, str]]:
    return honest(state, level="1" if state.condition["level"] != "1" else "3")


CASES: list[tuple[str, Callable[[TrainingState], list[tuple[str, str]]], FailureCategory | None]] = [
    ("nothing wrong", honest, None),
    ("nothing done", lambda s: [], FailureCategory.LOGIC),
    ("wrong level", wrong_level, FailureCategory.LOGIC),
    ("no pilot", lambda s: [c for c in honest(s) if c[1] != "bat pilot"], FailureCategory.LOGIC),
    ("unknown option", lambda s: [("bash", "bat plan --methode median")], FailureCategory.CODE),
    ("traceback", lambda s: [("python", "import nothing_like_this")], FailureCategory.CODE),
    ("out of memory", lambda s: [("python", "bytearray(1 << 44)")], FailureCategory.RESOURCE),
    (
        "hand-written plan",
        lambda s: [("python", "import os; os.mkdir('plan'); open('plan/plan.md', 'w').write('all is planned')")],
        FailureCategory.HALLUCINATION,
    ),
    (
        "inputs edited",
        lambda s: [*honest(s), ("bash", "cp cases/case1/image.npy cases/case2/image.npy")],
        FailureCategory.HALLUCINATION,
    ),
    (
        "a stray file among the outputs",
        lambda s: [*honest(s), ("bash", "echo x > agents_outputs/notes.txt")],
        FailureCategory.FORMAT,
    ),
]


@pytest.mark.parametrize(("calls", "category"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_category(
    calls: Callable[[TrainingState], list[tuple[str, str]]],
    category: FailureCategory | None,
    make_state: MakeState,
    toolkit_sandbox: Sandbox,
    replayer: Replayer,
) -> None:
    state = make_state(Track.ENHANCEMENT, Focus.E2E, Outcome.SUCCESS)
    environment = StageEnvironment({state.state_id: state}.__getitem__, toolkit_sandbox, replayer)
    environment.reset(state_id=state.state_id)
    for language, code in calls(state):
        environment.execute_code(language, code)
    assert environment.evaluate().failure == category
