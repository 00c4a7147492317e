"""Held-out suites: fixed end-to-end tasks on public images that no site holds.

There are two, on disjoint sources: `gate` steers promotion and curriculum, `sealed` is for reporting only. A suite is
built once from a seed, pinned by its digest, and never touches site data.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from common.canonical import canonical_json, digest_json
from common.errors import DataError
from common.sandbox import Sandbox
from common.stages import Focus, Outcome, Track
from stage_bank.fabrication import Fabricator
from stage_bank.images import PublicImage, Split, public_images
from stage_bank.state import TrainingState
from stage_bank.tracks import TRACKS

__all__ = ["HeldoutSuite", "build_suite", "load_suite"]

SCHEMA_VERSION = 1
ATTEMPTS_PER_CELL = 20
"""How many draws may fail admission before the images are blamed."""


@dataclass(frozen=True)
class HeldoutSuite:
    """A fixed set of end-to-end tasks.

    Args:
        name: `gate` or `sealed`.
        states: one task each, in a fixed order.
    """

    name: Split
    states: tuple[TrainingState, ...]

    @property
    def digest(self) -> str:
        """SHA-256 over the suite's name and the digests of its tasks: what a run pins."""
        return digest_json({"name": self.name, "states": [state.state_id for state in self.states]})

    def save(self, path: Path) -> None:
        """Write the suite as JSON Lines, a header line first."""
        path.parent.mkdir(parents=True, exist_ok=True)
        header = canonical_json({"schema_version": SCHEMA_VERSION, "name": self.name, "digest": self.digest})
        partial = path.with_suffix(".partial")
        partial.write_bytes(b"\n".join([header, *(state.to_bytes() for state in self.states)]) + b"\n")
        partial.replace(path)


def load_suite(path: Path) -> HeldoutSuite:
    """Read a suite and check it against the digest in its header.

    Raises:
        DataError: missing, of another schema version, or changed since it was built.
    """
    try:
        header, *lines = path.read_bytes().splitlines()
        fields = json.loads(header)
        suite = HeldoutSuite(fields["name"], tuple(TrainingState.from_bytes(line) for line in lines))
        expected = fields["digest"] if fields["schema_version"] == SCHEMA_VERSION else ""
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError("cannot read the held-out suite", where=str(path), remedy="Build it again.") from error
    if suite.digest != expected:
        raise DataError("held-out suite was changed after it was built", where=str(path), remedy="Build it again.")
    return suite


def build_suite(
    name: Split, sandbox: Sandbox, *, tracks: Sequence[Track], cells_per_track: int, seed: int
) -> HeldoutSuite:
    """Fabricate a suite: every facet of a track takes each of its values equally often, outcomes take turns.

    Args:
        name: which public images to use.
        sandbox: where handoffs and the admission check run.
        tracks: task families.
        cells_per_track: tasks of each family.
        seed: decides images, views and conditions.

    Raises:
        DataError: the images do not admit a task in `ATTEMPTS_PER_CELL` draws.
    """
    images = public_images(name)
    states = []
    for track in tracks:
        rng = np.random.default_rng([seed, len(name), list(Track).index(track)])
        conditions = _balanced_conditions(track, rng)
        outcomes = itertools.cycle(Outcome)
        for _ in range(cells_per_track):
            states.append(_admitted(track, next(outcomes), conditions, images, rng, sandbox))
    return HeldoutSuite(name, tuple(states))


def _balanced_conditions(track: Track, rng: np.random.Generator) -> Iterator[dict[str, str]]:
    """Endless conditions in which each facet runs through all its values before one comes again."""
    facets = TRACKS[track].facets
    decks: dict[str, list[str]] = {facet: [] for facet in facets}
    while True:
        condition = {}
        for facet, values in facets.items():
            if not decks[facet]:
                decks[facet] = [values[index] for index in rng.permutation(len(values))]
            condition[facet] = decks[facet].pop()
        yield condition


def _admitted(
    track: Track,
    outcome: Outcome,
    conditions: Iterator[dict[str, str]],
    images: Sequence[PublicImage],
    rng: np.random.Generator,
    sandbox: Sandbox,
) -> TrainingState:
    condition = next(conditions)
    for _ in range(ATTEMPTS_PER_CELL):
        image = images[int(rng.integers(len(images)))]
        maker = Fabricator(track, condition, [image.picture], f"public-{image.source_digest[:16]}", rng, sandbox)
        state = maker.state(Focus.E2E, outcome, rng)
        if state is not None:
            return state
    raise DataError(f"no held-out task could be made for {track.value}", where=str(condition))
