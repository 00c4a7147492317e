"""Command scripts of the stage toolkit: what to run given choices and habits, with no look at any observation.

The oracle knows the condition. A fixed script is one sequence of commands for a focus and a track, whatever the state
shows: it is the yardstick for how much of a reward can be had without looking.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import product

import numpy as np

from common.stages import Focus, Outcome, Track
from stage_bank.state import TrainingState
from stage_bank.tracks import TRACKS

__all__ = ["ALL_HABITS", "Habit", "Script", "fixed_scripts", "oracle_commands", "random_commands", "script"]

Script = tuple[str, ...]
"""Bash commands, one call of the tool each."""

CANDIDATES = 3


class Habit(StrEnum):
    """Things a careful agent does whatever it sees."""

    CANDIDATES = "candidates"
    """Compares three candidate methods while planning."""
    CHECK = "check"
    """Checks plan against data before the set-up."""
    PILOT = "pilot"
    """Runs one case before the batch."""
    VERIFY_PILOT = "verify pilot"
    """Looks at the pilot's output."""
    VERIFY_OUTPUTS = "verify outputs"
    """Looks at the batch before submitting."""
    REDO = "redo"
    """Redoes the earlier steps of a handoff instead of trusting them."""


ALL_HABITS = frozenset(Habit)


@dataclass(frozen=True)
class _Step:
    """One command of the workflow: the focus that owns it, and the habit without which it is left out."""

    owner: Focus
    text: str
    habit: Habit | None = None


def _workflow(choice: Mapping[str, str], habits: frozenset[Habit]) -> tuple[_Step, ...]:
    plan = f"bat plan --method {choice['method']} --polarity {choice['polarity']} --level {choice['level']}"
    if Habit.CANDIDATES in habits:
        plan += f" --candidates {CANDIDATES}"
    return (
        _Step(Focus.S1, "bat inspect"),
        _Step(Focus.S1, plan),
        _Step(Focus.S2, "bat check", Habit.CHECK),
        _Step(Focus.S2, f"bat setup --repair {choice['repair']}"),
        _Step(Focus.S3, "bat pilot", Habit.PILOT),
        _Step(Focus.S3, "bat verify", Habit.VERIFY_PILOT),
        _Step(Focus.S4, "bat infer"),
        _Step(Focus.S4, "bat verify", Habit.VERIFY_OUTPUTS),
        _Step(Focus.S5, f"bat submit --deliver {choice['deliver']}"),
    )


_REDONE: Mapping[Focus, tuple[str, ...]] = {
    Focus.S2: ("bat plan",),
    Focus.S3: ("bat plan", "bat setup"),
    Focus.S4: ("bat plan", "bat setup"),
    Focus.S5: ("bat plan", "bat setup", "bat infer"),
}
"""Earlier commands a focus needs again when the handoff is not to be trusted."""


def script(focus: Focus, choice: Mapping[str, str], habits: frozenset[Habit] = ALL_HABITS) -> Script:
    """The commands of a focus under given choices and habits; inspection always comes first.

    Args:
        focus: stage practised, or E2E.
        choice: option name to value, for method, polarity, level, repair and deliver.
        habits: which habits it has.
    """
    commands = ["bat inspect"]
    redone = _REDONE.get(focus, ()) if Habit.REDO in habits else ()
    for step in _workflow(choice, habits)[1:]:
        own = focus in (step.owner, Focus.E2E)
        if own and step.habit is not None and step.habit not in habits:
            continue
        if own or step.text.startswith(redone or ("\0",)):
            commands.append(step.text)
    if focus is Focus.S3 and Habit.PILOT not in habits:
        commands.append("bat infer")
    return tuple(commands)


def oracle_commands(state: TrainingState) -> Script:
    """What an agent does that sees everything: right choices, every habit, earlier steps redone where they failed."""
    habits = ALL_HABITS if state.outcome is not Outcome.SUCCESS else ALL_HABITS - {Habit.REDO}
    return script(state.focus, TRACKS[state.track].right_choice(state.condition), habits)


_CHOSEN: Mapping[Focus, tuple[str, ...]] = {
    Focus.S1: ("method", "polarity", "level"),
    Focus.S2: ("repair",),
    Focus.S3: (),
    Focus.S4: (),
    Focus.S5: ("deliver",),
}
"""The choices that a focus makes when it does not redo the earlier ones."""


def fixed_scripts(
    track: Track, focus: Focus, habits: Sequence[frozenset[Habit]] = (ALL_HABITS, ALL_HABITS - {Habit.REDO})
) -> Iterator[Script]:
    """Every fixed script of a focus with one of the given sets of habits: all choices, none twice.

    Args:
        track: task family.
        focus: stage practised, or E2E.
        habits: sets of habits to try; by default all of them, with and without redoing the earlier stages.
    """
    options = TRACKS[track].options
    seen: set[Script] = set()
    for some in habits:
        chosen = tuple(options) if focus is Focus.E2E or Habit.REDO in some else _CHOSEN[focus]
        free = [values if name in chosen else values[:1] for name, values in options.items()]
        for values in product(*free):
            commands = script(focus, dict(zip(options, values, strict=True)), some)
            if commands not in seen:
                seen.add(commands)
                yield commands


def random_commands(track: Track, focus: Focus, rng: np.random.Generator) -> Script:
    """Valid commands drawn blindly, as many as the focus's full script has."""
    options = TRACKS[track].options
    length = len(script(focus, {name: values[0] for name, values in options.items()}))
    commands = []
    for _ in range(length):
        choice = {name: str(rng.choice(values)) for name, values in options.items()}
        habits = frozenset(habit for habit in Habit if rng.random() < 0.5)
        steps = _workflow(choice, habits)
        commands.append(steps[int(rng.integers(len(steps)))].text)
    return tuple(commands)
