"""What a wall says of a state that it keeps out."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Breach"]


@dataclass(frozen=True)
class Breach:
    """One finding. It says where and of which kind, never the identifier itself, so that it may be logged at the site.

    Args:
        where: part of the state.
        what: kind of finding.
    """

    where: str
    what: str
