"""A wrong choice costs: what every method, polarity and level is worth under every kind, on real pictures."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from common.stages import Track
from rubrics.layout import BATCH
from stage_bank.fabrication import ADMISSION, CASES, random_condition
from stage_bank.picture import Picture
from stage_bank.skills import (
    LEVELS,
    POLARITY_CHOICE,
    SKILLS,
    Pipeline,
    Workspace,
    inspect_workspace,
    open_workspace,
    run_case,
)
from stage_bank.skills.workspace import write_bytes, write_json
from stage_bank.tracks import TRACKS, Fabricated

WRONG_ROUTE, WRONG_LEVEL, LEAST_ADMITTED = 0.35, 0.75, 0.5
"""Most that a wrong method or polarity, and a wrong level, may be worth; least share of views that carry the task."""


def write(root: Path, track: Track, fabricated: Fabricated) -> Workspace:
    for path, content in fabricated.files.items():
        write_bytes(root / path, content)
    cases = [f"case{index}" for index in range(1, CASES + 1)]
    write_json(root / "task.json", {"track": str(track), "cases": cases})
    return open_workspace(root)


def worth(workspace: Workspace, fabricated: Fabricated, plan: Pipeline, repair: str) -> float:
    """Mean score of a whole batch, as `bat infer` would leave it."""
    outputs, form = {}, workspace.skill.form
    for case in workspace.cases():
        output = run_case(workspace.skill, case, plan, repair, workspace.exemplars())
        outputs[f"{BATCH}/{case.name}/{form.file_name}"] = form.encode(output)
    scores = TRACKS[Track(workspace.track)].score(outputs, fabricated.files, fabricated.references, BATCH)
    return float(np.mean([score or 0.0 for score in scores.values()]))


def wrongness(plan: Pipeline, right: Mapping[str, str]) -> str:
    """Which part of a choice is wrong, the gravest first."""
    return next((part for part in ("method", "polarity", "level") if getattr(plan, part) != right[part]), "")


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("track", list(TRACKS))
def test_only_the_right_choice_earns(track: Track, level: str, pictures: list[Picture], tmp_path: Path) -> None:
    rng = np.random.default_rng(int(level))
    options = TRACKS[track].options
    choices = itertools.product(options["method"], options["polarity"], options["level"])
    plans = [Pipeline(method, polarity, strength) for method, polarity, strength in choices]
    drawn, admitted = 0, 0
    table: dict[tuple[str, str], list[float]] = defaultdict(list)
    for kind, polarity in itertools.product(SKILLS[str(track)].methods, POLARITY_CHOICE):
        for picture in rng.permutation(len(pictures))[:2]:
            condition = {**random_condition(track, rng), "kind": kind, "polarity": polarity, "level": level}
            fabricated = TRACKS[track].fabricate([pictures[picture]], condition, rng, CASES)
            workspace = write(tmp_path / str(drawn), track, fabricated)
            right = TRACKS[track].right_choice(condition)
            drawn += 1
            found = inspect_workspace(workspace)
            best = worth(workspace, fabricated, Pipeline(right["method"], right["polarity"], level), condition["fault"])
            if (found.kind, found.level, found.polarity) != (kind, level, polarity) or best < ADMISSION:
                continue
            admitted += 1
            for plan in plans:
                table[kind, wrongness(plan, right)].append(worth(workspace, fabricated, plan, condition["fault"]))
    assert admitted >= LEAST_ADMITTED * drawn
    assert {kind for kind, _ in table} == set(SKILLS[str(track)].methods)
    worths = {key: float(np.mean(scores)) for key, scores in table.items()}
    for (kind, wrong), value in worths.items():
        limit = {"": 1.0, "level": WRONG_LEVEL}.get(wrong, WRONG_ROUTE)
        assert value <= limit, f"{kind}: a wrong {wrong} is worth {value:.2f}"
