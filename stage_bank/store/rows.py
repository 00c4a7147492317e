"""What the index knows of a state."""

from __future__ import annotations

from dataclasses import dataclass

from common.stages import Focus, Outcome, Track

__all__ = ["BankRow"]


@dataclass(frozen=True, order=True)
class BankRow:
    """One line of the index.

    Args:
        state_id: SHA-256 of its content, 64 hex digits.
        focus: stage it practises, or E2E.
        track: task family.
        outcome: how the earlier stages went.
        patient: keyed pseudonym; never leaves the site.
    """

    state_id: str
    focus: Focus
    track: Track
    outcome: Outcome
    patient: str
