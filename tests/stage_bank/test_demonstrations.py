from __future__ import annotations

import itertools

import numpy as np
import pytest

from common.sandbox import Sandbox
from common.stages import Focus, Outcome, Track
from stage_bank.demonstrations import (
    OPTION_OF_FACET,
    SHARE_SHOWN,
    Demonstration,
    demonstrated_choice,
    demonstrations,
    shown_units,
)
from stage_bank.environment import OBSERVATION_CHARACTERS
from stage_bank.fabrication import random_condition
from stage_bank.picture import Picture
from stage_bank.scripts import Habit
from stage_bank.tracks import TRACKS

ALL = tuple(TRACKS)


@pytest.fixture(scope="module")
def shown(toolkit_sandbox: Sandbox, pictures: list[Picture]) -> list[Demonstration]:
    return list(demonstrations(pictures, toolkit_sandbox, count=24 * len(ALL), seed=4, tracks=ALL))


def test_at_most_forty_percent_of_the_units_are_shown_and_fixed_by_digest() -> None:
    units = shown_units(ALL)
    count = sum(len(values) for track in ALL for values in TRACKS[track].facets.values())
    assert SHARE_SHOWN * count - 1 < len(units) <= SHARE_SHOWN * count
    assert units == shown_units(tuple(reversed(ALL)))


def test_choices_are_right_where_shown_and_uniform_elsewhere() -> None:
    rng = np.random.default_rng(0)
    units = shown_units(ALL)
    counts: dict[tuple[str, ...], dict[str, int]] = {}
    for track, _ in itertools.product(ALL, range(3000)):
        condition = random_condition(track, rng)
        choice = demonstrated_choice(track, condition, units, rng)
        right = TRACKS[track].right_choice(condition)
        for facet, value in condition.items():
            option = OPTION_OF_FACET[facet]
            if (track, facet, value) in units:
                assert choice[option] == right[option]
            else:
                drawn = counts.setdefault((track, facet, value), dict.fromkeys(TRACKS[track].options[option], 0))
                drawn[choice[option]] += 1
    for drawn in counts.values():
        expected = sum(drawn.values()) / len(drawn)
        assert all(abs(count - expected) < 6 * expected**0.5 for count in drawn.values())


def test_all_tracks_focuses_and_outcomes_are_covered(shown: list[Demonstration]) -> None:
    assert len(shown) == 24 * len(ALL)
    assert {one.track for one in shown} == set(ALL)
    assert {(one.focus, one.outcome) for one in shown} == set(itertools.product(Focus, Outcome))


def test_habits_stand_in_less_than_half(shown: list[Demonstration]) -> None:
    for habit in Habit:
        assert 0.2 < sum(habit in one.habits for one in shown) / len(shown) < 0.6


def test_observations_are_real(shown: list[Demonstration]) -> None:
    for one in shown:
        command, seen = one.steps[0]
        assert command == "bat inspect"
        assert seen == " ".join(f"{facet} {one.condition[facet]}" for facet in OPTION_OF_FACET)
        assert all(0 < len(observation) <= OBSERVATION_CHARACTERS for _, observation in one.steps)
        assert not any("exit 2" in observation for _, observation in one.steps)
    printed = {observation for one in shown for _, observation in one.steps}
    assert {"plan saved", "pilot good", "infer 4 done", "submitted 4"} <= printed
    assert any("exit 1" in observation for observation in printed)


def test_prompts_say_nothing_of_the_condition(shown: list[Demonstration]) -> None:
    assert {one.prompt for one in shown} == {f"track {t} stage {f}" for t, f in itertools.product(ALL, Focus)}


def test_equal_seeds_give_equal_demonstrations(toolkit_sandbox: Sandbox, pictures: list[Picture]) -> None:
    tracks = (Track.ENHANCEMENT,)
    first, second = (list(demonstrations(pictures, toolkit_sandbox, count=10, seed=8, tracks=tracks)) for _ in range(2))
    assert first == second
