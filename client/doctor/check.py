"""One check: a name, and a function from the site's settings to what it found."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from client.site_config import SiteConfig

__all__ = ["Check", "Finding", "State", "fine", "wrong"]


class State(StrEnum):
    """How something stands."""

    GOOD = "good"
    WARNING = "warning"
    BAD = "bad"


@dataclass(frozen=True)
class Finding:
    """What one look found.

    Args:
        state: how it stands.
        what: in one line.
        remedy: what to do; empty where nothing is to be done.
    """

    state: State
    what: str
    remedy: str = ""


@dataclass(frozen=True)
class Check:
    """One check.

    Args:
        name: as shown.
        look: settings to findings, at least one.
    """

    name: str
    look: Callable[[SiteConfig], Iterable[Finding]]


def fine(what: str) -> Finding:
    """Something that holds."""
    return Finding(State.GOOD, what)


def wrong(what: str, remedy: str) -> Finding:
    """Something that does not hold."""
    return Finding(State.BAD, what, remedy)
