"""One rollout of one state: the sandboxed tool, the training reward and the evaluation scores.

`StageEnvironment` is what TRL's `environment_factory` makes. TRL offers every public method except `reset` and
`get_reward` to the policy as a tool, so everything else here is a property or private.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

from common.errors import BatError, SandboxError
from common.sandbox.interface import Sandbox, SandboxSession
from common.sandbox.receipt import Language, Receipt
from common.sandbox.record import Record
from common.stages import Focus
from rubrics.evaluation import StageScores, evaluate
from rubrics.evidence import Evidence, Task, collect_evidence
from rubrics.replay import Replayer
from rubrics.training import TrainingReward, training_reward
from stage_bank.state import TrainingState
from stage_bank.tasks import task_of

__all__ = ["MAXIMUM_CALLS", "OBSERVATION_CHARACTERS", "StageEnvironment", "observe"]

_T = TypeVar("_T")

OBSERVATION_CHARACTERS = 2048
"""Longest observation, in characters (arXiv 2608.16211)."""

MAXIMUM_CALLS = 23
"""Most tool calls of a rollout (arXiv 2608.16211)."""


def observe(receipt: Receipt) -> str:
    """What the policy is shown of an execution, at most `OBSERVATION_CHARACTERS` characters.

    Failures say so in one short line after the output, because the policy sees no exit status otherwise.
    """
    lines = [receipt.output.strip()]
    if receipt.timed_out:
        lines.append("timed out")
    elif receipt.exit_status != 0:
        lines.append(f"exit {receipt.exit_status}")
    text = "\n".join(line for line in lines if line) or "done"
    return text if len(text) <= OBSERVATION_CHARACTERS else text[: OBSERVATION_CHARACTERS - 1] + "…"


class StageEnvironment:
    """One rollout at a time on states of a bank; `reset` starts the next.

    A sandbox that breaks is not the agent's failure: `SandboxError` then comes out of `execute_code`, and again out of
    `get_reward` and `evaluate` whatever the caller did with the first, so that such a rollout is repeated and never
    scored.

    Args:
        states: state id to state.
        sandbox: where the agent's code runs.
        replayer: the verifier's re-runs, shared by all environments of a process.
    """

    def __init__(self, states: Callable[[str], TrainingState], sandbox: Sandbox, replayer: Replayer) -> None:
        self._states = states
        self._sandbox = sandbox
        self._replayer = replayer
        self._session: SandboxSession | None = None
        self._task: Task | None = None
        self._rollout = ""
        self._finished: tuple[Record, Mapping[str, bytes]] | None = None
        self._broken: SandboxError | None = None

    def reset(self, **row: object) -> str | None:
        """Start a rollout on the state named by `state_id`.

        Args:
            row: the dataset row; only `state_id` is read.

        Returns:
            `None`: the prompt of the row says all there is to say.

        Raises:
            BankError: there is no such state.
            SandboxError: no workspace could be made.
        """
        self._close()
        state = self._states(str(row["state_id"]))
        self._task = task_of(state)
        self._finished, self._broken = None, None
        self._session = session = self._guard(lambda: self._sandbox.open(state.files))
        self._rollout = session.rollout
        return None

    def execute_code(self, language: str, code: str) -> str:
        """Run code in the workspace.

        Args:
            language: bash or python
            code: the code to run

        Returns:
            What it printed.
        """
        session = self._session
        if session is None:
            return "the rollout is over"
        if language not in set(Language):
            return "language must be bash or python"
        if len(session.receipts) >= MAXIMUM_CALLS:
            return "no calls left"
        return observe(self._guard(lambda: session.execute(Language(language), code)))

    def get_reward(self) -> float:
        """End the rollout and give its training reward in [0, 1].

        Raises:
            SandboxError: the sandbox broke during the rollout or its verification; repeat the rollout.
        """
        return self.reward.value

    @property
    def reward(self) -> TrainingReward:
        """The training reward with its reasons; ends the rollout. Raises as `get_reward`."""
        return training_reward(self._evidence())

    @property
    def evaluate(self) -> Callable[[], StageScores]:
        """Call it to end the rollout and get its evaluation scores over all five stages.

        Raises:
            SandboxError: on calling, as for `get_reward`.
        """
        return lambda: evaluate(self._evidence(Focus.E2E))

    @property
    def close(self) -> Callable[[], None]:
        """Call it to drop the workspace, if there still is one."""
        return self._close

    @property
    def receipts(self) -> tuple[Receipt, ...]:
        """Everything executed so far in this rollout."""
        if self._session is not None:
            return self._session.receipts
        return () if self._finished is None else self._finished[0].receipts

    def _evidence(self, focus: Focus | None = None) -> Evidence:
        if self._task is None:
            raise BatError("no rollout was started", remedy="Call reset first.")
        if self._broken is not None:
            raise self._broken
        record, final = self._finish()
        task = self._task if focus is None else replace(self._task, focus=focus)
        key, rollout = self._sandbox.public_key, self._rollout
        return self._guard(
            lambda: collect_evidence(task, record, final, key=key, rollout=rollout, replayer=self._replayer)
        )

    def _finish(self) -> tuple[Record, Mapping[str, bytes]]:
        if self._finished is None:
            session = self._session
            if session is None:
                raise BatError("the rollout was closed before it was scored")
            self._finished = self._guard(lambda: (session.seal(), session.files()))
            self._close()
        return self._finished

    def _guard(self, act: Callable[[], _T]) -> _T:
        try:
            return act()
        except SandboxError as error:
            self._broken = error
            raise

    def _close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()
