"""Which states a round practises on: three pools by the prescription's odds, tracks and outcomes evenly within each.

This is the draw of a run without differential privacy: it spreads over the whole bank. Under DP patients enter by their
own coins instead (design section 4), and this module is not used.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from typing import TypeAlias

import numpy as np

from common.errors import BankError, ConfigurationError
from common.stages import Focus, Outcome, SourcePool, Stage, Track

__all__ = ["BankRow", "draw"]


@dataclass(frozen=True, order=True)
class BankRow:
    """What the index knows of a state.

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


_Cell: TypeAlias = tuple[Focus, Track, Outcome]


def draw(
    rows: Sequence[BankRow],
    rng: random.Random | np.random.Generator,
    *,
    pool_odds: Mapping[SourcePool, float],
    target_stage: Stage,
    tracks: Collection[Track],
    count: int,
) -> list[BankRow]:
    """Draw `count` rows: pools in proportion to their odds, cells in turn, states least used first.

    A cell is a (focus, track, outcome).
    A pool or cell without states gives its share to the others. Expected shares are exact, counts differ from them by
    less than one a pool (systematic sampling).

    Args:
        rows: the index, in an order that does not depend on chance.
        rng: source of chance; equal generators give equal draws.
        pool_odds: weight of each pool; need not sum to 1.
        target_stage: focus of the target pool; every other stage is in the mix pool.
        tracks: tracks to draw from.
        count: rows wanted.

    Returns:
        Rows in shuffled order, repeated only where a cell has fewer states than it must give.

    Raises:
        ConfigurationError: negative odds or count.
        BankError: no state fits.
    """
    if count < 0 or any(weight < 0 for weight in pool_odds.values()):
        raise ConfigurationError("odds of pools and number of states must not be negative")
    source = random.Random(_seed(rng))
    cells: dict[SourcePool, dict[_Cell, list[BankRow]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row.track in tracks:
            cells[_pool(row.focus, target_stage)][row.focus, row.track, row.outcome].append(row)
    weights = {pool: pool_odds.get(pool, 0.0) for pool in SourcePool if cells.get(pool)}
    if sum(weights.values()) <= 0.0:
        raise BankError("the bank holds no state of these tracks and pools", remedy="Build a bank that covers them.")
    drawn: list[BankRow] = []
    for pool, share in _shares(weights, count, source).items():
        drawn += _from_cells(cells[pool], share, source)
    source.shuffle(drawn)
    return drawn


def _seed(rng: random.Random | np.random.Generator) -> int:
    return rng.getrandbits(63) if isinstance(rng, random.Random) else int(rng.integers(1 << 63))


def _pool(focus: Focus, target_stage: Stage) -> SourcePool:
    if focus is Focus.E2E:
        return SourcePool.E2E
    return SourcePool.TARGET if focus.value == target_stage.value else SourcePool.MIX


def _shares(weights: Mapping[SourcePool, float], count: int, source: random.Random) -> dict[SourcePool, int]:
    """How many rows each pool gives: one random offset, then equal steps over the cumulated weights."""
    total, offset = sum(weights.values()), source.random()
    shares, edge, given = {}, 0.0, 0
    for pool, weight in weights.items():
        edge += weight / total * count
        upto = min(count, max(given, int(edge + offset)))
        shares[pool], given = upto - given, upto
    last = max(weights, key=lambda pool: weights[pool])
    shares[last] += count - given
    return shares


def _from_cells(cells: Mapping[_Cell, Sequence[BankRow]], share: int, source: random.Random) -> list[BankRow]:
    order = sorted(cells)
    source.shuffle(order)
    used: Counter[str] = Counter()
    drawn = []
    for cell in islice(cycle(order), share):
        fewest = min(used[row.state_id] for row in cells[cell])
        row = source.choice([row for row in cells[cell] if used[row.state_id] == fewest])
        used[row.state_id] += 1
        drawn.append(row)
    return drawn
