"""What a site must remember across restarts, read from its own ledger: nonces it has used, rounds it has answered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from common.ledger import Event

__all__ = ["ACCEPTED", "RELEASED", "SiteHistory"]

ACCEPTED = "prescription_accepted"
"""Ledger event kind: a prescription passed every check and its nonce is used up."""

RELEASED = "release"
"""Ledger event kind: a signed release is about to leave."""

RoundKey = tuple[str, int]
"""(run, round)."""


@dataclass
class SiteHistory:
    """Memory of the site.

    Args:
        nonces: of every accepted prescription.
        released: (run, round) to the ledger body of its one release.
    """

    nonces: set[str] = field(default_factory=set)
    released: dict[RoundKey, Mapping[str, object]] = field(default_factory=dict)

    @classmethod
    def of(cls, events: Iterable[Event]) -> SiteHistory:
        """Rebuild the memory from verified events."""
        history = cls()
        for event in events:
            if isinstance(event.body, dict):
                history.note(event.kind, event.body)
        return history

    def note(self, kind: str, body: Mapping[str, object]) -> None:
        """Take one event into account."""
        if kind == ACCEPTED:
            self.nonces.add(str(body["nonce"]))
        elif kind == RELEASED:
            self.released[str(body["run"]), int(str(body["round"]))] = body
