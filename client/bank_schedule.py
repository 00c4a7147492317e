"""What is made next: tracks, outcomes and focuses fill evenly, and several conditions may be under way at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import product

from common.stages import Focus, Outcome, Track
from stage_bank.store import BankRow

__all__ = ["Cell", "Job", "Schedule"]

STATES_PER_CONDITION = 3
"""States that share one patient's pixels and one condition; more is faster, fewer is more varied."""

ATTEMPTS = 20
"""Conditions tried in a row without one that holds before a track is left out."""

Cell = tuple[Outcome, Focus]

CELLS: tuple[Cell, ...] = tuple(product(Outcome, Focus))
"""The cells of a track, in the order in which they are filled."""


@dataclass(frozen=True)
class Job:
    """One condition to fabricate under.

    Args:
        number: of the condition; decides everything that is drawn, and whose turn it is.
        track: task family.
        cells: what to make of it.
    """

    number: int
    track: Track
    cells: tuple[Cell, ...]


class Schedule:
    """Hands out jobs; the same answers in the same order give the same jobs.

    Cells count as filled from the moment they are handed out, and no longer when their job comes back without them.

    Args:
        tracks: tracks to fill.
        held: what the bank holds already.
        start: number of the first job.
    """

    def __init__(self, tracks: Iterable[Track], held: Iterable[BankRow], start: int) -> None:
        self._tracks = list(tracks)
        self._filled: Counter[tuple[Track, Cell]] = Counter((row.track, (row.outcome, row.focus)) for row in held)
        self._misses: Counter[Track] = Counter()
        self._next = start

    def take(self) -> Job | None:
        """The emptiest cells of the emptiest track; `None` when every track was left out."""
        if not self._tracks:
            return None
        track = min(self._tracks, key=lambda track: sum(self._filled[track, cell] for cell in CELLS))
        cells = sorted(CELLS, key=lambda cell: self._filled[track, cell])[:STATES_PER_CONDITION]
        self._filled.update((track, cell) for cell in cells)
        job = Job(self._next, track, tuple(cells))
        self._next += 1
        return job

    def settle(self, job: Job, admitted: Collection[Cell], *, holds: bool) -> None:
        """Note what became of a job.

        Args:
            job: as it was handed out.
            admitted: those of its cells that a state was admitted for.
            holds: whether the patient's pictures carry the condition.
        """
        self._filled.subtract((job.track, cell) for cell in job.cells if cell not in admitted)
        self._misses[job.track] = 0 if holds else self._misses[job.track] + 1
        if self._misses[job.track] >= ATTEMPTS and job.track in self._tracks:
            self._tracks.remove(job.track)
