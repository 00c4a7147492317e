"""A place for one rollout: TRL resets it and asks it for the reward, the environment behind it works in a thread pool.

TRL resets and scores environments one after the other. A seat only starts the work and hands the result over when it is
needed, so the resets of a batch, and the replays behind the rewards, run side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from typing import Any, Protocol

from common.policy import ToolEnvironment

__all__ = ["Environment", "EnvironmentFactory", "Seat", "Seating"]


class Environment(ToolEnvironment, Protocol):
    """What a training environment offers: TRL's protocol, with the project's one tool."""

    def reset(self, **row: Any) -> str | None:
        """Begin the state that `row` names; returns the prompt."""

    def get_reward(self) -> float:
        """Score the finished rollout, in [0, 1]."""

    def close(self) -> None:
        """Free what the environment holds."""


EnvironmentFactory = Callable[[], Environment]


class Seat:
    """One environment, reset once for every rollout. Public methods are those that TRL looks for."""

    def __init__(self, environment: Environment, rows: Sequence[Mapping[str, Any]], executor: Executor) -> None:
        self._environment, self._rows, self._executor = environment, rows, executor
        self._row: Mapping[str, Any] = {}
        self._prompt: Future[str | None]
        self._reward: Future[float]

    def reset(self, row: int, **_: Any) -> None:
        """Start resetting the environment to the given row of the round."""
        self._row = self._rows[row]
        self._prompt = self._executor.submit(self._environment.reset, **self._row)

    def execute_code(self, language: str, code: str) -> str:
        """Run code in this rollout's workspace.

        Args:
            language: Interpreter, bash or python.
            code: The program.

        Returns:
            What it printed.
        """
        return self._environment.execute_code(language=language, code=code)

    def get_reward(self) -> float:
        """Wait for the reward."""
        return float(self._reward.result())

    def _text(self) -> str:
        return self._prompt.result() or str(self._row.get("prompt", ""))

    def _finish(self) -> None:
        self._reward = self._executor.submit(self._environment.get_reward)


class Seating:
    """Makes seats for TRL and closes their environments when the round is over.

    Args:
        factory: makes an environment.
        rows: of the round; `Seat.reset` takes an index into them.
        executor: where environments work.
    """

    def __init__(self, factory: EnvironmentFactory, rows: Sequence[Mapping[str, Any]], executor: Executor) -> None:
        self._factory, self._rows, self._executor = factory, rows, executor
        self._environments: list[Environment] = []

    def __call__(self) -> Seat:
        """A new seat."""
        self._environments.append(self._factory())
        return Seat(self._environments[-1], self._rows, self._executor)

    def close(self) -> None:
        """Close every environment handed out."""
        for environment in self._environments:
            environment.close()
