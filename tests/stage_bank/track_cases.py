"""Cases of a track, and its pipelines run on them without a sandbox."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from common.stages import Track
from rubrics.layout import BATCH, cases_of
from stage_bank.fabrication import CASES, random_condition
from stage_bank.picture import Picture
from stage_bank.skills import Pipeline, Workspace, open_workspace, run_case
from stage_bank.skills.workspace import write_bytes, write_json
from stage_bank.tracks import TRACKS, Fabricated

__all__ = ["batch", "fabricated", "right_batch", "right_plan", "worth", "write"]


def fabricated(
    track: Track, pictures: list[Picture], seed: int = 0, **facets: str
) -> tuple[dict[str, str], Fabricated]:
    rng = np.random.default_rng(seed)
    condition = {**random_condition(track, rng), **facets}
    return condition, TRACKS[track].fabricate(pictures, condition, rng, CASES)


def write(root: Path, track: Track, made: Fabricated) -> Workspace:
    """The cases in a folder, as the toolkit meets them."""
    for path, content in made.files.items():
        write_bytes(root / path, content)
    write_json(root / "task.json", {"track": track.value, "cases": cases_of(made.files)})
    return open_workspace(root)


def batch(workspace: Workspace, plan: Pipeline, repair: str) -> dict[str, bytes]:
    """The outputs of all cases, as `bat infer` would leave them."""
    outputs, form = {}, workspace.skill.form
    for case in workspace.cases():
        output = run_case(workspace.skill, case, plan, repair, workspace.exemplars())
        outputs[f"{BATCH}/{case.name}/{form.file_name}"] = form.encode(output)
    return outputs


def right_plan(track: Track, condition: Mapping[str, str]) -> Pipeline:
    """The plan that is right under a condition."""
    right = TRACKS[track].right_choice(condition)
    return Pipeline(right["method"], right["polarity"], right["level"])


def right_batch(root: Path, track: Track, condition: Mapping[str, str], made: Fabricated) -> dict[str, bytes]:
    """The outputs of the right pipeline, run in a folder."""
    return batch(write(root, track, made), right_plan(track, condition), condition["fault"])


def worth(workspace: Workspace, made: Fabricated, plan: Pipeline, repair: str) -> float:
    """Mean score of a whole batch under a plan."""
    scores = TRACKS[Track(workspace.track)].score(batch(workspace, plan, repair), made.files, made.references, BATCH)
    return float(np.mean([score or 0.0 for score in scores.values()]))
