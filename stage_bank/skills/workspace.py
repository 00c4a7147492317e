"""Where everything lies in a workspace, and how it is read and written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ._words import SkillError
from .case import Case, read_case
from .skill import NO_EXEMPLARS, Exemplars, TrackSkill
from .toolbox import SKILLS

__all__ = ["Workspace", "open_workspace", "read_json", "task_document", "write_json"]


def task_document(track: str, stage: str, cases: list[str]) -> dict[str, Any]:
    """The content of `task.json`, the one file a workspace must have beside its cases.

    Args:
        track: a key of `SKILLS`.
        stage: what is asked for, S1 to S5 or E2E; informative.
        cases: case names, folders under `cases/`.
    """
    return {"track": track, "stage": stage, "cases": cases}


@dataclass(frozen=True)
class Workspace:
    """An opened workspace.

    Args:
        root: its folder.
        track: task family.
        case_names: cases in the task's order.
    """

    root: Path
    track: str
    case_names: tuple[str, ...]

    @property
    def skill(self) -> TrackSkill:
        """What the toolkit can do on this track."""
        return SKILLS[self.track]

    def cases(self) -> list[Case]:
        """All cases as stored, in order."""
        return [read_case(self.root / "cases" / name) for name in self.case_names]

    def exemplars(self) -> Exemplars:
        """The public labelled exemplars; none on tracks without them."""
        folder = self.root / "exemplars"
        if not folder.is_dir():
            return NO_EXEMPLARS
        try:
            labels = json.loads((folder / "labels.json").read_text())
            names = sorted(labels)
            images = tuple(np.load(folder / f"{name}.npy", allow_pickle=False).astype(np.float64) for name in names)
            return Exemplars(images, tuple(int(labels[name]) for name in names))
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise SkillError("exemplars unreadable") from error


def open_workspace(root: Path) -> Workspace:
    """Open the workspace at a folder.

    Raises:
        SkillError: no readable `task.json`, or an unknown track.
    """
    task = read_json(root / "task.json")
    if not task:
        raise SkillError("no task.json here")
    track, names = task.get("track"), task.get("cases")
    if not isinstance(track, str) or track not in SKILLS:
        raise SkillError("unknown track")
    if not isinstance(names, list) or not names or not all(isinstance(n, str) and n.isalnum() for n in names):
        raise SkillError("task.json without cases")
    return Workspace(root=root, track=track, case_names=tuple(names))


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object, or an empty one where the file is missing or damaged."""
    try:
        value = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write with sorted keys; equal values give equal bytes."""
    write_bytes(path, (json.dumps(value, sort_keys=True, indent=1) + "\n").encode())


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
