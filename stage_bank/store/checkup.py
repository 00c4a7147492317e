"""Going through a whole bank: does every state decrypt to what its id says, is every snapshot as it was made."""

from __future__ import annotations

from dataclasses import dataclass

from common.errors import BankError
from stage_bank.store.bank import StageBank

__all__ = ["Checkup", "check_bank"]


@dataclass(frozen=True)
class Checkup:
    """What was found.

    Args:
        snapshots: snapshots that are as they were made.
        states: different states in them that are whole.
        damaged: what is not, in words; a state is named by the first 16 digits of its id.
        leftovers: files that no row names; harmless, `bank gc` removes them.
    """

    snapshots: int
    states: int
    damaged: tuple[str, ...]
    leftovers: int


def check_bank(bank: StageBank) -> Checkup:
    """Decrypt everything and compare it with its name; one damaged state does not end the search."""
    damaged: list[str] = []
    snapshots = 0
    ids: set[str] = set()
    try:
        for snapshot in bank.snapshots():
            ids |= {row.state_id for row in snapshot.rows}
            snapshots += 1
    except BankError as error:
        damaged.append(str(error))
    whole = 0
    for state_id in sorted(ids):
        try:
            bank.state(state_id)
        except BankError as error:
            damaged.append(str(error))
        else:
            whole += 1
    return Checkup(snapshots, whole, tuple(damaged), len(bank.orphans()))
