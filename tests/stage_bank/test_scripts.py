from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.stages import Focus, Outcome, Track
from stage_bank.scripts import ALL_HABITS, Habit, fixed_scripts, oracle_commands, random_commands, script
from stage_bank.state import TrainingState
from stage_bank.tracks import TRACKS

CHOICE = {"method": "median", "polarity": "keep", "level": "2", "repair": "nan", "deliver": "flip"}
PLAN = "bat plan --method median --polarity keep --level 2"


def test_the_whole_workflow_with_every_habit() -> None:
    assert script(Focus.E2E, CHOICE) == (
        "bat inspect",
        f"{PLAN} --candidates 3",
        "bat check",
        "bat setup --repair nan",
        "bat pilot",
        "bat verify",
        "bat infer",
        "bat verify",
        "bat submit --deliver flip",
    )


def test_the_whole_workflow_without_habits() -> None:
    bare = ("bat inspect", PLAN, "bat setup --repair nan", "bat infer", "bat submit --deliver flip")
    assert script(Focus.E2E, CHOICE, frozenset()) == bare


@pytest.mark.parametrize(
    ("focus", "redone", "own"),
    [
        (Focus.S1, (), (PLAN,)),
        (Focus.S2, (PLAN,), ("bat setup --repair nan",)),
        (Focus.S3, (PLAN, "bat setup --repair nan"), ("bat infer",)),
        (Focus.S4, (PLAN, "bat setup --repair nan"), ("bat infer",)),
        (Focus.S5, (PLAN, "bat setup --repair nan", "bat infer"), ("bat submit --deliver flip",)),
    ],
)
def test_a_focus_has_its_own_commands_and_redoes_what_it_needs(
    focus: Focus, redone: tuple[str, ...], own: tuple[str, ...]
) -> None:
    assert script(focus, CHOICE, frozenset()) == ("bat inspect", *own)
    assert script(focus, CHOICE, frozenset({Habit.REDO})) == ("bat inspect", *redone, *own)


@given(st.sampled_from(list(Focus)), st.sets(st.sampled_from(list(Habit))))
def test_inspection_comes_first_and_commands_are_valid(focus: Focus, habits: set[Habit]) -> None:
    commands = script(focus, CHOICE, frozenset(habits))
    assert commands[0] == "bat inspect"
    assert set(commands) <= {*script(Focus.E2E, CHOICE), PLAN}
    assert sum(command.startswith("bat plan") for command in commands) <= 1


@pytest.mark.parametrize(
    ("focus", "fixed", "for_each_repair"),
    [("S1", 24, 0), ("S2", 0, 25), ("S3", 1, 24), ("S4", 1, 24), ("S5", 3, 72), ("E2E", 0, 72)],
)
def test_fixed_scripts_are_all_choices(focus: str, fixed: int, for_each_repair: int) -> None:
    for track, spec in TRACKS.items():
        scripts = list(fixed_scripts(track, Focus(focus)))
        assert len(scripts) == len(set(scripts)) == fixed + for_each_repair * len(spec.options["repair"])


def test_fixed_scripts_take_any_sets_of_habits() -> None:
    some = list(fixed_scripts(Track.ENHANCEMENT, Focus.S1, [frozenset(), ALL_HABITS]))
    assert len(some) == 48


def test_random_commands_are_valid_and_seeded() -> None:
    for track in TRACKS:
        valid = {step for commands in fixed_scripts(track, Focus.E2E) for step in commands}
        drawn = random_commands(track, Focus.E2E, np.random.default_rng(0))
        assert drawn == random_commands(track, Focus.E2E, np.random.default_rng(0))
        assert {command.removesuffix(" --candidates 3") for command in drawn} <= {
            command.removesuffix(" --candidates 3") for command in valid
        }


def test_the_oracle_redoes_only_what_failed(make_state: Callable[..., TrainingState]) -> None:
    trusted = oracle_commands(make_state(Track.ENHANCEMENT, Focus.S4, Outcome.SUCCESS))
    mended = oracle_commands(make_state(Track.ENHANCEMENT, Focus.S4, Outcome.RECOVERY))
    assert trusted == ("bat inspect", "bat infer", "bat verify")
    assert len(mended) == 5
