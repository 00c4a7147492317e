"""The worked example of docs/extending.md, carried out on a copy of the project: a new track in two files."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("common", "rubrics", "stage_bank")

PROOF = """
import itertools
import numpy as np
from common.signing import SigningKey
from common.stages import Focus, Outcome, Track
from rubrics import Replayer
from stage_bank.environment import StageEnvironment
from stage_bank.fabrication import Fabricator, random_condition
from stage_bank.picture import Picture
from stage_bank.scripts import oracle_commands, script
from stage_bank.toolkit import open_toolkit_sandbox
from stage_bank.tracks import TRACKS

track, rng = Track("counting"), np.random.default_rng(0)
tissue = rng.random((96, 96)).cumsum(axis=0).cumsum(axis=1).astype(np.float32)
picture = Picture(tissue / tissue.max())
sandbox = open_toolkit_sandbox(SigningKey.generate())
replayer = Replayer(sandbox)


def reward(state, commands):
    environment = StageEnvironment({state.state_id: state}.__getitem__, sandbox, replayer)
    environment.reset(state_id=state.state_id)
    for command in commands:
        environment.execute_code("bash", command)
    return environment.get_reward()


for kind, level in itertools.product(TRACKS[track].facets["kind"], "123"):
    condition = {**random_condition(track, rng), "kind": kind, "level": level}
    maker = Fabricator(track, condition, [picture], "patient", rng, sandbox, replayer)
    assert maker.admissible, condition
    for outcome in Outcome:
        state = maker.state(Focus.E2E, outcome, rng)
        assert reward(state, oracle_commands(state)) == 1.0
    right = TRACKS[track].right_choice(condition)
    for name in ("method", "level", "polarity", "repair", "deliver"):
        other = next(value for value in TRACKS[track].options[name] if value != right[name])
        assert reward(state, script(Focus.E2E, {**right, name: other})) < 0.9, name
sandbox.close()
print("proved")
"""


def add_line(file: Path, after: str, line: str) -> None:
    text = file.read_text()
    assert text.count(after) == 1, f"{after!r} is not one line of {file.name}"
    file.write_text(text.replace(after, after + line))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the packages with the example's two files and its lines in the tables."""
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    blocks = re.findall(r"`(stage_bank/\w+/counting\.py)`:\n\n```python\n(.*?)```", documentation(), re.DOTALL)
    assert len(blocks) == 2
    for path, code in blocks:
        (tmp_path / path).write_text(code)
    add_line(tmp_path / "common/stages.py", '    ENHANCEMENT = "enhancement"\n', '    COUNTING = "counting"\n')
    skills, tracks = tmp_path / "stage_bank/skills/toolbox.py", tmp_path / "stage_bank/tracks/__init__.py"
    add_line(skills, "from . import classification", ", counting")
    add_line(skills, '    "classification": classification.SKILL,\n', '    "counting": counting.SKILL,\n')
    add_line(tracks, "from stage_bank.tracks import classification", ", counting")
    add_line(tracks, "        classification.TRACK,\n", "        counting.TRACK,\n")
    return tmp_path


def documentation() -> str:
    return (ROOT / "docs/extending.md").read_text()


def test_the_example_is_a_track(project: Path) -> None:
    done = subprocess.run([sys.executable, "-c", PROOF], cwd=project, capture_output=True, text=True, timeout=300)
    assert done.stdout.endswith("proved\n"), done.stderr
