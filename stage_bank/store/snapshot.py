"""A snapshot: the states of a bank at one moment, fixed for good, that a round draws from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from common.canonical import digest_bytes
from stage_bank.store.rows import BankRow

__all__ = ["Snapshot", "digest_rows"]


@dataclass(frozen=True)
class Snapshot:
    """An immutable set of states.

    Args:
        number: 1 for the first of a bank, then counting.
        digest: SHA-256 over all rows, whose ids commit to the contents; 64 hex digits. Site-local.
        rows: sorted by id.
    """

    number: int
    digest: str
    rows: tuple[BankRow, ...]


def digest_rows(rows: Iterable[BankRow]) -> str:
    """SHA-256 over rows in the order of their ids, 64 hex digits; no field holds a line break or a blank."""
    lines = (f"{r.state_id} {r.focus} {r.track} {r.outcome} {r.patient}\n" for r in sorted(rows))
    return digest_bytes("".join(lines).encode())
