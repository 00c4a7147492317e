"""A wrong choice costs, on every track: what methods, polarities and levels are worth under every kind."""

from __future__ import annotations

import itertools
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from common.stages import Track
from stage_bank.fabrication import ADMISSION, CASES, random_condition
from stage_bank.picture import Picture
from stage_bank.skills import LEVELS, POLARITIES, SKILLS, Pipeline, inspect_workspace
from stage_bank.tracks import TRACKS
from tests.stage_bank.track_cases import right_plan, worth, write

WRONG_ROUTE, WRONG_LEVEL, LEAST_ADMITTED = 0.35, 0.75, 0.5
"""Most that a wrong method or polarity, and a wrong level, may be worth; least share of views that carry the task."""


def wrongness(plan: Pipeline, right: Pipeline) -> str:
    """Which part of a choice is wrong, the gravest first."""
    return next((part for part in ("method", "polarity", "level") if getattr(plan, part) != getattr(right, part)), "")


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("track", list(TRACKS))
def test_only_the_right_choice_earns(track: Track, level: str, pictures: list[Picture], tmp_path: Path) -> None:
    rng = np.random.default_rng(int(level))
    spec, skill = TRACKS[track], SKILLS[track.value]
    choices = itertools.product(spec.options["method"], spec.options["polarity"], spec.options["level"])
    plans = [Pipeline(method, polarity, strength) for method, polarity, strength in choices]
    drawn, admitted = 0, 0
    table: dict[tuple[str, str], list[float]] = defaultdict(list)
    for kind, polarity in itertools.product(skill.methods, POLARITIES):
        for picture in rng.permutation(len(pictures))[:2]:
            condition = {**random_condition(track, rng), "kind": kind, "polarity": polarity, "level": level}
            made = spec.fabricate([pictures[picture]], condition, rng, CASES)
            workspace = write(tmp_path / str(drawn), track, made)
            drawn += 1
            found, right = inspect_workspace(workspace), right_plan(track, condition)
            best = worth(workspace, made, right, condition["fault"])
            if (found.kind, found.level, found.polarity) != (kind, level, polarity) or best < ADMISSION:
                continue
            admitted += 1
            for plan in plans:
                table[kind, wrongness(plan, right)].append(worth(workspace, made, plan, condition["fault"]))
    assert admitted >= LEAST_ADMITTED * drawn
    assert {kind for kind, _ in table} == set(skill.methods)
    worths = {key: float(np.mean(scores)) for key, scores in table.items()}
    for (kind, wrong), value in worths.items():
        limit = {"": 1.0, "level": WRONG_LEVEL}.get(wrong, WRONG_ROUTE)
        assert value <= limit, f"{kind}: a wrong {wrong} is worth {value:.2f}"
