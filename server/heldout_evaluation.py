"""Running policies and scripts over a held-out suite.

A cell whose sandbox broke is repeated, and an evaluation with a cell that cannot be completed is an error: broken
infrastructure is never scored as a poor policy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor

from common.adapter import Adapter, adapter_digest, encode_adapter
from common.canonical import digest_json
from common.errors import FederationError, SandboxError
from common.policy import Policy, rollout, with_adapter
from common.sandbox import Language, Sandbox
from rubrics.replay import Replayer
from server.evaluation import Cell, EvaluationSummary, summarise
from server.heldout import HeldoutSuite
from stage_bank.environment import StageEnvironment
from stage_bank.scripts import Script
from stage_bank.state import TrainingState

__all__ = ["MAX_TOKENS", "MAX_TURNS", "SuiteRunner"]

MAX_TURNS = 24
"""Assistant turns of a held-out run (arXiv 2608.16211)."""

MAX_TOKENS = 1024
"""Tokens of a held-out run, prompt included; an oracle run of `bat-tiny` needs about a third."""

BATCH = 64
"""Runs decoded together."""

ATTEMPTS = 3
"""How often a cell is tried when the sandbox breaks under it."""

Play = Callable[[Sequence[StageEnvironment], Sequence[TrainingState]], None]
"""Plays one run in each environment, already reset on its state."""


class SuiteRunner:
    """Scores policies and command scripts on one suite.

    Args:
        suite: the tasks.
        sandbox: where the agent's code and the verifier's re-runs are executed.
        workers: tool calls run side by side.
    """

    def __init__(self, suite: HeldoutSuite, sandbox: Sandbox, *, workers: int = 4) -> None:
        self.suite = suite
        self._states = {state.state_id: state for state in suite.states}
        self._sandbox = sandbox
        self._replayer = Replayer(sandbox)
        self._executor: Executor = ThreadPoolExecutor(workers, thread_name_prefix="heldout")

    def policy(self, policy: Policy, adapter: Adapter) -> EvaluationSummary:
        """Decode greedily with an adapter and score every cell.

        Raises:
            FederationError: a cell could not be completed.
            AdapterError: the adapter does not fit the policy.
        """
        adapted = with_adapter(policy, adapter)

        def play(environments: Sequence[StageEnvironment], states: Sequence[TrainingState]) -> None:
            rollout(
                adapted,
                environments,
                [state.prompt for state in states],
                temperature=0.0,
                seeds=[0] * len(states),
                max_turns=MAX_TURNS,
                max_tokens=MAX_TOKENS,
                executor=self._executor,
            )

        return self._evaluate(play, adapter_digest(encode_adapter(adapter)))

    def script(self, commands: Callable[[TrainingState], Script]) -> EvaluationSummary:
        """Run a command script in every cell.

        Args:
            commands: the bash commands for a task.

        Raises:
            FederationError: a cell could not be completed.
        """

        def play(environments: Sequence[StageEnvironment], states: Sequence[TrainingState]) -> None:
            for _ in self._executor.map(_run_script, environments, map(commands, states)):
                pass

        return self._evaluate(play, digest_json([list(commands(state)) for state in self.suite.states]))

    def _evaluate(self, play: Play, checkpoint: str) -> EvaluationSummary:
        cells: dict[str, Cell] = {}
        for _ in range(ATTEMPTS):
            missing = [state for state_id, state in self._states.items() if state_id not in cells]
            for start in range(0, len(missing), BATCH):
                cells |= self._batch(play, missing[start : start + BATCH])
            if len(cells) == len(self._states):
                return summarise(cells.values(), checkpoint)
        raise FederationError(
            f"{len(self._states) - len(cells)} held-out cells could not be completed",
            where=f"{self.suite.name} suite",
            remedy="The sandbox broke repeatedly: run bat-client doctor, then evaluate again.",
        )

    def _batch(self, play: Play, states: Sequence[TrainingState]) -> Mapping[str, Cell]:
        """The cells of the runs that could be completed."""
        environments = [StageEnvironment(self._states.__getitem__, self._sandbox, self._replayer) for _ in states]
        try:
            for environment, state in zip(environments, states, strict=True):
                environment.reset(state_id=state.state_id)
            play(environments, states)
        except SandboxError:
            for environment in environments:
                environment.close()
            return {}
        scored = self._executor.map(_cell, environments, states)
        return {state.state_id: cell for state, cell in zip(states, scored, strict=True) if cell is not None}


def _run_script(environment: StageEnvironment, commands: Script) -> None:
    for command in commands:
        environment.execute_code(language=Language.BASH, code=command)


def _cell(environment: StageEnvironment, state: TrainingState) -> Cell | None:
    try:
        scores = environment.evaluate()
    except SandboxError:
        return None
    finally:
        environment.close()
    return Cell(state.track, state.state_id, 0, scores.task, dict(scores.stages))
