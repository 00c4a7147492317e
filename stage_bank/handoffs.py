"""Handoffs: what the stages before a focus left behind, made by really running the toolkit in the sandbox."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from common.sandbox.interface import Sandbox
from common.sandbox.receipt import Language
from common.stages import Focus, Outcome
from rubrics.layout import SUBMITTED, is_input
from stage_bank.damage import damage_outputs
from stage_bank.scripts import ALL_HABITS, Habit, Script, script
from stage_bank.skills import Form

__all__ = ["End", "Handoff", "Workshop", "handoff", "wrong_choice"]

_EARLIER: Mapping[Focus, int] = {Focus.S1: 0, Focus.S2: 2, Focus.S3: 4, Focus.S4: 6, Focus.S5: 8}
"""How many commands of the full workflow lie before a focus (inspect and plan, check and setup, and so on)."""

_BREAKABLE: Mapping[Focus, tuple[str, ...]] = {
    Focus.E2E: ("method", "polarity", "level"),
    Focus.S1: ("method", "polarity", "level"),
    Focus.S2: ("method", "polarity", "level"),
    Focus.S3: ("method", "polarity", "level", "repair"),
    Focus.S4: ("method", "polarity", "level", "repair"),
    Focus.S5: ("method", "polarity", "level", "repair"),
}
"""The choices of the earlier stages that the fault of a recovery handoff may concern."""

_STOPS: Mapping[Focus, tuple[int, ...]] = {
    Focus.S2: (0, 1),
    Focus.S3: (0, 1, 3),
    Focus.S4: (0, 1, 3),
    Focus.S5: (0, 3, 6),
}
"""Where a failed handoff may have stopped, in commands of the full workflow; what the focus needs is then missing."""

DAMAGED_SHARE = 0.5
"""Share of the recovery handoffs with a batch in which all choices were right and the outputs were damaged."""

_ABANDONED_BYTES = 40
"""Length of the outputs that an abandoned attempt left."""


def wrong_choice(
    right: Mapping[str, str], options: Mapping[str, tuple[str, ...]], names: Sequence[str], rng: np.random.Generator
) -> dict[str, str]:
    """The right choice with one of the named options set to a wrong value, both drawn uniformly."""
    name = str(rng.choice(list(names)))
    others = [value for value in options[name] if value != right[name]]
    return {**right, name: str(rng.choice(others))}


class End(StrEnum):
    """What became of what the earlier stages left."""

    WHOLE = "whole"
    """It lies there as it was made."""
    ABANDONED = "abandoned"
    """The attempt was given up: cut-short outputs, and nothing else of it."""
    DAMAGED = "damaged"
    """Its outputs were damaged after they were made."""


@dataclass(frozen=True)
class Handoff:
    """What the earlier stages did.

    Args:
        commands: what they ran.
        end: what became of it.
    """

    commands: Script
    end: End = End.WHOLE


def handoff(
    focus: Focus,
    outcome: Outcome,
    right: Mapping[str, str],
    options: Mapping[str, tuple[str, ...]],
    rng: np.random.Generator,
) -> Handoff:
    """What the earlier stages did.

    Args:
        focus: the stage that is handed to.
        outcome: success runs all of them with the right choices; recovery with one choice wrong, or, where a batch is
            handed over, with outputs that were damaged afterwards; failure stops before what the focus needs. Before
            S1 and E2E, success is a clean start, recovery a stale wrong plan, and failure a whole attempt with a wrong
            plan that was then abandoned.
        right: option name to the right choice.
        options: option name to its valid values.
        rng: decides fault and stopping point.
    """
    wrong = wrong_choice(right, options, _BREAKABLE[focus], rng)
    if focus in (Focus.S1, Focus.E2E):
        if outcome is Outcome.SUCCESS:
            return Handoff(())
        full = script(Focus.E2E, wrong, ALL_HABITS - {Habit.CANDIDATES, Habit.CHECK, Habit.PILOT, Habit.VERIFY_PILOT})
        return Handoff(full[1:2]) if outcome is Outcome.RECOVERY else Handoff(full[1:], End.ABANDONED)
    if outcome is Outcome.FAILURE:
        return Handoff(script(Focus.E2E, right)[: int(rng.choice(_STOPS[focus]))])
    damaged = outcome is Outcome.RECOVERY and focus is Focus.S5 and rng.random() < DAMAGED_SHARE
    chosen = right if damaged or outcome is Outcome.SUCCESS else wrong
    return Handoff(script(Focus.E2E, chosen)[: _EARLIER[focus]], End.DAMAGED if damaged else End.WHOLE)


class Workshop:
    """Runs handoffs on the inputs of one patient's view; equal beginnings are run once.

    Args:
        inputs: the untouched inputs of the workspace.
        sandbox: where the toolkit runs.
    """

    def __init__(self, inputs: Mapping[str, bytes], sandbox: Sandbox) -> None:
        self._inputs = inputs
        self._sandbox = sandbox
        self._made: dict[Script, dict[str, bytes]] = {(): {}}

    def perform(self, commands: Script) -> tuple[str, dict[str, bytes]]:
        """Run commands from a clean start.

        Returns:
            What they printed, and the files that they leave beside the inputs.

        Raises:
            SandboxError: the sandbox broke.
        """
        output, self._made[commands] = self._continued((), commands)
        return output, dict(self._made[commands])

    def run(self, commands: Script) -> dict[str, bytes]:
        """Files that these commands leave beside the inputs, continued from the longest beginning that was run before.

        Raises:
            SandboxError: the sandbox broke.
        """
        if commands not in self._made:
            start = max(n for n in range(len(commands)) if commands[:n] in self._made)
            self._made[commands] = self._continued(commands[:start], commands[start:])[1]
        return dict(self._made[commands])

    def _continued(self, done: Script, commands: Script) -> tuple[str, dict[str, bytes]]:
        session = self._sandbox.open({**self._inputs, **self._made[done]})
        try:
            receipt = session.execute(Language.BASH, "\n".join(commands))
            files = {path: data for path, data in session.files().items() if not is_input(path)}
        finally:
            session.close()
        return receipt.output, files

    def left(self, done: Handoff, form: Form, rng: np.random.Generator) -> dict[str, bytes]:
        """Files that a handoff leaves beside the inputs.

        Args:
            done: what the earlier stages did.
            form: of the track's outputs.
            rng: decides the damage.

        Raises:
            SandboxError: the sandbox broke.
        """
        files = self.run(done.commands)
        if done.end is End.ABANDONED:
            return {path: data[:_ABANDONED_BYTES] for path, data in files.items() if path.startswith(SUBMITTED + "/")}
        return damage_outputs(files, form, rng) if done.end is End.DAMAGED else files
