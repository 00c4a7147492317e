"""Three walls around a Stage Bank: no patient, no held-out content and no answer gets into a state.

`Walls.breaches` is the one gate of the builder: it fails closed, and is asked state by state, so that a bad one stops
no other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from stage_bank.state import TrainingState
from stage_bank.walls.breach import Breach
from stage_bank.walls.evaluation import EvaluationWall
from stage_bank.walls.fingerprints import FingerprintSet, fingerprint_suites, read_fingerprints, sign_fingerprints
from stage_bank.walls.patient import PatientWall
from stage_bank.walls.target import TargetWall

__all__ = [
    "Breach",
    "EvaluationWall",
    "FingerprintSet",
    "PatientWall",
    "TargetWall",
    "Walls",
    "fingerprint_suites",
    "read_fingerprints",
    "sign_fingerprints",
]


class Wall(Protocol):
    """One check of a state."""

    def breaches(self, state: TrainingState) -> list[Breach]:
        """All findings; none when the state may be admitted."""


class Walls:
    """All walls of a site.

    Args:
        patient: knows the identifiers of the ingested files.
        evaluation: knows the server's fingerprints; left out while a site has none.
    """

    def __init__(self, patient: PatientWall, evaluation: EvaluationWall | None) -> None:
        self._walls: Sequence[Wall] = [patient, TargetWall(), *([evaluation] if evaluation is not None else [])]

    def breaches(self, state: TrainingState) -> list[Breach]:
        """All findings of all walls; none when the state may be admitted."""
        return [breach for wall in self._walls for breach in wall.breaches(state)]
