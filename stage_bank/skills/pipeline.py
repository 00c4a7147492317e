"""A pipeline as data: two small JSON files decide, together with the case's bytes, every byte of the output.

`plan/pipeline.json` holds method, polarity, level and candidates; `process/setup.json` holds the repair. Whoever copies
the two into a fresh workspace with the same cases and runs `bat infer && bat submit --deliver D` gets the same outputs.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any

from ._words import LEVELS, POLARITY_CHOICE, Output, SkillError
from .case import Case
from .faults import load
from .skill import Exemplars, TrackSkill
from .workspace import Workspace, read_json

__all__ = ["Pipeline", "read_pipeline", "read_repair", "run_case"]


@dataclass(frozen=True)
class Pipeline:
    """The choices of a plan.

    Args:
        method: one of the track's methods.
        polarity: `keep` or `invert`.
        level: `1`, `2` or `3`.
        candidates: how many candidate methods were compared, at least 1.
    """

    method: str
    polarity: str
    level: str
    candidates: int = 1

    def to_json(self) -> dict[str, Any]:
        """The content of `plan/pipeline.json`."""
        return asdict(self)

    def digest(self, repair: str) -> str:
        """SHA-256 over what decides the outputs: method, polarity, level and repair; 64 hex digits."""
        parts = [self.method, self.polarity, self.level, repair]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def read_pipeline(workspace: Workspace) -> Pipeline:
    """The plan in force.

    Raises:
        SkillError: there is none, or it holds a choice that the track does not know.
    """
    fields = read_json(workspace.root / "plan" / "pipeline.json")
    if not fields:
        raise SkillError("no plan")
    candidates = fields.get("candidates", 1)
    plan = Pipeline(
        method=str(fields.get("method")),
        polarity=str(fields.get("polarity")),
        level=str(fields.get("level")),
        candidates=candidates if type(candidates) is int else 1,
    )
    known = plan.method in workspace.skill.methods.values()
    if not (known and plan.polarity in POLARITY_CHOICE.values() and plan.level in LEVELS):
        raise SkillError("plan broken")
    return plan


def read_repair(workspace: Workspace) -> str:
    """The repair in force.

    Raises:
        SkillError: setup has not been run, or has not come out ready.
    """
    fields = read_json(workspace.root / "process" / "setup.json")
    if fields.get("repair") not in workspace.skill.faults or fields.get("ready") is not True:
        raise SkillError("setup not ready")
    return str(fields["repair"])


def run_case(skill: TrackSkill, case: Case, plan: Pipeline, repair: str, exemplars: Exemplars) -> Output:
    """Load one case and run the plan on it.

    Returns:
        The output before delivery.

    Raises:
        SkillError: the fault remains.
    """
    return skill.process(load(case, repair, plan.polarity), plan.method, plan.level, exemplars)
