"""Scarce demonstrations for the cold start: real commands, run in the real environment, with real observations.

As in the paper's premise, they teach how to speak to the toolkit and little about what is right. For the first 40 % of
the condition units, in the order of their digests, the right choice is shown; for the others the choice is drawn
uniformly from the valid values. Each good habit stands in 40 % of the demonstrations, independently of the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice

import numpy as np

from common.canonical import digest_bytes
from common.errors import DataError
from common.sandbox.interface import Sandbox
from common.sandbox.receipt import Language
from common.stages import Focus, Outcome, Track
from rubrics.replay import Replayer
from stage_bank.environment import observe
from stage_bank.fabrication import Fabricator, random_condition
from stage_bank.picture import Picture
from stage_bank.scripts import Habit, script
from stage_bank.state import TrainingState
from stage_bank.tracks import TRACKS

__all__ = ["OPTION_OF_FACET", "SHARE_OF_HABITS", "SHARE_SHOWN", "Demonstration", "demonstrations", "shown_units"]

SHARE_SHOWN = 0.4
"""Share of the condition units whose right choice is shown."""

SHARE_OF_HABITS = 0.4
"""Share of the demonstrations that have a given habit."""

OPTION_OF_FACET: Mapping[str, str] = {
    "kind": "method",
    "polarity": "polarity",
    "level": "level",
    "fault": "repair",
    "deliver": "deliver",
}
"""Facet of a condition to the option it decides."""

PER_PATIENT = 8
"""Demonstrations made on the same pixels, each with its own focus, outcome, choices and habits."""

ATTEMPTS = 20
"""How many draws may fail admission in a row before the images are blamed."""

_FOCUSES = (Focus.E2E, Focus.S1, Focus.S2, Focus.E2E, Focus.S3, Focus.S4, Focus.E2E, Focus.S5)
"""Order of the focuses: the whole workflow stands beside its parts."""

Unit = tuple[Track, str, str]
"""A condition unit: track, facet, value."""


@dataclass(frozen=True)
class Demonstration:
    """One demonstration.

    Args:
        prompt: the user message.
        steps: bash commands, each with what it printed.
        track: task family.
        focus: stage practised, or E2E.
        outcome: how the earlier stages went.
        condition: facet to value; for checking the scarcity, never shown.
        habits: the habits it has.
    """

    prompt: str
    steps: tuple[tuple[str, str], ...]
    track: Track
    focus: Focus
    outcome: Outcome
    condition: Mapping[str, str]
    habits: frozenset[Habit]


def shown_units(tracks: Sequence[Track]) -> frozenset[Unit]:
    """The condition units whose right choice is shown: at most 40 % of them, fixed by digest."""
    units = [(t, facet, value) for t in tracks for facet, values in TRACKS[t].facets.items() for value in values]
    ordered = sorted(units, key=lambda unit: digest_bytes("/".join((unit[0].value, *unit[1:])).encode()))
    return frozenset(ordered[: int(SHARE_SHOWN * len(ordered))])


def demonstrated_choice(
    track: Track, condition: Mapping[str, str], shown: frozenset[Unit], rng: np.random.Generator
) -> dict[str, str]:
    """The choices of one demonstration: right where the unit is shown, else uniform over the valid values."""
    spec = TRACKS[track]
    right = spec.right_choice(condition)
    choice = {}
    for facet, value in condition.items():
        option = OPTION_OF_FACET[facet]
        drawn = str(rng.choice(spec.options[option]))
        choice[option] = right[option] if (track, facet, value) in shown else drawn
    return choice


def demonstrations(
    pictures: Sequence[Picture],
    sandbox: Sandbox,
    *,
    count: int,
    seed: int,
    tracks: Sequence[Track],
) -> Iterator[Demonstration]:
    """Make demonstrations on public pictures, over all tracks, focuses and outcomes in turn.

    Args:
        pictures: public, and held by no site and no suite.
        sandbox: where everything runs.
        count: how many.
        seed: decides conditions, views, choices and habits.
        tracks: task families.

    Raises:
        DataError: no picture is usable.
        SandboxError: the sandbox broke.
    """
    rng = np.random.default_rng(seed)
    replayer = Replayer(sandbox)
    shown = shown_units(tracks)
    turns = cycle(tracks)
    cells = _cells(tracks)
    made = 0
    while made < count:
        track = next(turns)
        fabricator = _fabricator(track, pictures, sandbox, replayer, rng)
        for focus, outcome in islice(cells[track], min(PER_PATIENT, count - made)):
            yield _demonstrate(fabricator.draft(focus, outcome, rng), shown, sandbox, rng)
            made += 1


def _cells(tracks: Sequence[Track]) -> dict[Track, Iterator[tuple[Focus, Outcome]]]:
    """For each track its own endless round over focuses and outcomes."""
    return {track: cycle([(focus, outcome) for outcome in Outcome for focus in _FOCUSES]) for track in tracks}


def _fabricator(
    track: Track, pictures: Sequence[Picture], sandbox: Sandbox, replayer: Replayer, rng: np.random.Generator
) -> Fabricator:
    for _ in range(ATTEMPTS):
        picture = pictures[int(rng.integers(len(pictures)))]
        condition = random_condition(track, rng)
        fabricator = Fabricator(track, condition, [picture], "public", rng, sandbox, replayer)
        if fabricator.admissible:
            return fabricator
    raise DataError(f"no demonstration could be made for {track.value}", remedy="Give more or larger pictures.")


def _demonstrate(
    state: TrainingState, shown: frozenset[Unit], sandbox: Sandbox, rng: np.random.Generator
) -> Demonstration:
    choice = demonstrated_choice(state.track, state.condition, shown, rng)
    habits = frozenset(habit for habit in Habit if rng.random() < SHARE_OF_HABITS)
    session = sandbox.open(state.files)
    try:
        commands = script(state.focus, choice, habits)
        steps = tuple((command, observe(session.execute(Language.BASH, command))) for command in commands)
    finally:
        session.close()
    return Demonstration(state.prompt, steps, state.track, state.focus, state.outcome, state.condition, habits)
