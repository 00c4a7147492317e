from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from common.errors import BatError, SandboxError
from common.sandbox import Sandbox
from common.signing import SigningKey
from common.stages import STAGES, Focus, Outcome, Track
from rubrics import Replayer
from stage_bank.environment import MAXIMUM_CALLS, OBSERVATION_CHARACTERS, StageEnvironment
from stage_bank.scripts import oracle_commands, random_commands
from stage_bank.state import TrainingState
from stage_bank.toolkit import open_toolkit_sandbox

MakeState = Callable[..., TrainingState]
MakeEnvironment = Callable[[TrainingState], StageEnvironment]


@pytest.fixture
def start(toolkit_sandbox: Sandbox, replayer: Replayer) -> MakeEnvironment:
    def make(state: TrainingState) -> StageEnvironment:
        environment = StageEnvironment({state.state_id: state}.__getitem__, toolkit_sandbox, replayer)
        assert environment.reset(state_id=state.state_id, prompt="unused", another="column") is None
        return environment

    return make


def test_trl_sees_one_tool() -> None:
    public = [name for name, _ in inspect.getmembers(StageEnvironment, inspect.isfunction) if not name.startswith("_")]
    assert public == ["execute_code", "get_reward", "reset"]
    assert inspect.signature(StageEnvironment.execute_code).return_annotation in ("str", str)
    assert re.search(
        r"Args:\n\s+language: .+\n\s+code: .+\n\s+Returns:", inspect.getdoc(StageEnvironment.execute_code) or ""
    )


def test_tool_schema_can_be_made() -> None:
    from transformers.utils.chat_template_utils import get_json_schema

    schema = get_json_schema(StageEnvironment.execute_code)
    assert list(schema["function"]["parameters"]["properties"]) == ["language", "code"]


def test_observations_say_what_happened_and_stay_short(make_state: MakeState, start: MakeEnvironment) -> None:
    environment = start(make_state(Track.ENHANCEMENT, Focus.E2E, Outcome.SUCCESS))
    assert environment.execute_code("bash", "bat inspect").startswith("kind ")
    assert environment.execute_code("bash", "true") == "done"
    assert environment.execute_code("bash", "exit 3") == "exit 3"
    assert environment.execute_code("bash", "bat pilot") == "no plan\nexit 1"
    assert environment.execute_code("ruby", "puts 1") == "language must be bash or python"
    long = environment.execute_code("python", "print('x' * 100_000)")
    assert (len(long), long[-1]) == (OBSERVATION_CHARACTERS, "…")


def test_calls_are_bounded(make_state: MakeState, start: MakeEnvironment) -> None:
    environment = start(make_state(Track.ENHANCEMENT, Focus.S1, Outcome.SUCCESS))
    shown = [environment.execute_code("bash", "bat inspect") for _ in range(MAXIMUM_CALLS + 1)]
    assert shown[-1] == "no calls left"
    assert len(environment.receipts) == MAXIMUM_CALLS


def test_inaction_earns_nothing_and_is_no_error(make_state: MakeState, start: MakeEnvironment) -> None:
    environment = start(make_state(Track.SEGMENTATION, Focus.E2E, Outcome.SUCCESS))
    assert environment.get_reward() == 0.0
    scores = environment.evaluate()
    assert (scores.overall, scores.stages) == (0.0, dict.fromkeys(STAGES, 0.0))


def test_scoring_ends_the_rollout_and_is_repeatable(make_state: MakeState, start: MakeEnvironment) -> None:
    state = make_state(Track.SEGMENTATION, Focus.S1, Outcome.SUCCESS)
    environment = start(state)
    for command in oracle_commands(state):
        environment.execute_code("bash", command)
    assert [environment.get_reward(), environment.get_reward()] == [1.0, 1.0]
    assert environment.execute_code("bash", "rm -rf plan") == "the rollout is over"
    assert environment.get_reward() == 1.0
    environment.reset(state_id=state.state_id)
    assert environment.get_reward() == 0.0


def test_scoring_needs_a_rollout(toolkit_sandbox: Sandbox, replayer: Replayer, make_state: MakeState) -> None:
    state = make_state(Track.SEGMENTATION, Focus.S1, Outcome.SUCCESS)
    environment = StageEnvironment({state.state_id: state}.__getitem__, toolkit_sandbox, replayer)
    with pytest.raises(BatError, match="Call reset first"):
        environment.get_reward()
    environment.reset(state_id=state.state_id)
    environment.close()
    with pytest.raises(BatError, match="closed before"):
        environment.evaluate()


def test_a_broken_sandbox_is_never_a_score(make_state: MakeState) -> None:
    state = make_state(Track.SEGMENTATION, Focus.E2E, Outcome.SUCCESS)
    sandbox = open_toolkit_sandbox(SigningKey.generate())
    environment = StageEnvironment({state.state_id: state}.__getitem__, sandbox, Replayer(sandbox))
    environment.reset(state_id=state.state_id)
    environment.execute_code("bash", "bat inspect")
    sandbox.close()
    with pytest.raises(SandboxError):
        environment.execute_code("bash", "bat inspect")
    for score in (environment.get_reward, environment.evaluate):
        with pytest.raises(SandboxError):
            score()


def test_a_sandbox_that_breaks_before_verification_is_never_a_score(make_state: MakeState) -> None:
    state = make_state(Track.SEGMENTATION, Focus.S1, Outcome.SUCCESS)
    sandbox = open_toolkit_sandbox(SigningKey.generate())
    environment = StageEnvironment({state.state_id: state}.__getitem__, sandbox, Replayer(sandbox))
    environment.reset(state_id=state.state_id)
    environment.execute_code("bash", "bat inspect")
    sandbox.close()
    for score in (environment.get_reward, environment.evaluate, environment.get_reward):
        with pytest.raises(SandboxError):
            score()


def test_a_hanging_program_is_the_agents_failure(make_state: MakeState, start: MakeEnvironment) -> None:
    environment = start(make_state(Track.SEGMENTATION, Focus.S1, Outcome.SUCCESS))
    environment.execute_code("bash", "kill -9 $$")
    assert environment.get_reward() == 0.0


def test_rewards_of_blind_commands_stay_in_range_and_below_the_oracle(
    make_state: MakeState, start: MakeEnvironment
) -> None:
    rng = np.random.default_rng(5)
    rewards = []
    for track in (Track.SEGMENTATION, Track.ENHANCEMENT, Track.CLASSIFICATION):
        for focus in Focus:
            environment = start(make_state(track, focus, Outcome.SUCCESS))
            for command in random_commands(track, focus, rng):
                environment.execute_code("bash", command)
            rewards.append(environment.get_reward())
    assert all(0.0 <= reward <= 1.0 for reward in rewards)
    assert np.mean(rewards) <= 0.35


def test_rollouts_in_threads_give_what_they_give_alone(make_state: MakeState, start: MakeEnvironment) -> None:
    states = [make_state(Track.ENHANCEMENT, focus, Outcome.RECOVERY) for focus in (Focus.S1, Focus.S2, Focus.S3) * 3]

    def play(state: TrainingState) -> float:
        environment = start(state)
        for command in oracle_commands(state):
            environment.execute_code("bash", command)
        return environment.get_reward()

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(play, states)) == [1.0] * len(states)
