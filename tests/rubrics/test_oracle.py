"""The honest optimum earns everything, whatever the track, focus and outcome."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from common.sandbox import Sandbox
from common.stages import STAGES, Focus, Outcome, Track
from rubrics import Replayer
from stage_bank.environment import StageEnvironment
from stage_bank.scripts import oracle_commands
from stage_bank.state import TrainingState
from stage_bank.tracks import TRACKS

MakeState = Callable[..., TrainingState]


def play(state: TrainingState, sandbox: Sandbox, replayer: Replayer) -> StageEnvironment:
    environment = StageEnvironment({state.state_id: state}.__getitem__, sandbox, replayer)
    environment.reset(state_id=state.state_id)
    for command in oracle_commands(state):
        environment.execute_code("bash", command)
    return environment


@pytest.mark.parametrize("outcome", list(Outcome))
@pytest.mark.parametrize("focus", list(Focus))
@pytest.mark.parametrize("track", list(TRACKS))
def test_oracle_earns_everything(
    track: Track,
    focus: Focus,
    outcome: Outcome,
    make_state: MakeState,
    toolkit_sandbox: Sandbox,
    replayer: Replayer,
) -> None:
    environment = play(make_state(track, focus, outcome), toolkit_sandbox, replayer)
    if focus is not Focus.E2E:
        assert environment.get_reward() == 1.0
        return
    scores = environment.evaluate()
    assert scores.stages == dict.fromkeys(STAGES, 1.0)
    assert scores.task >= 0.9
    assert environment.get_reward() == pytest.approx(0.5 + 0.5 * scores.task)
    assert scores.failure is None
