"""The round of Benchmark-as-Teacher: three pools in every batch, tracks and outcomes evenly, and repeatable.

Source: arXiv 2608.16211: batches of eight groups, four of the target stage, two spread over the other stages, two end
to end; 378 batches make a round of 3,024 rows. This spreads over the whole bank, so it serves runs without differential
privacy and export only; under DP patients enter by their own coins and this module is not used.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import TypeAlias

from common.errors import BankError, ConfigurationError
from common.stages import Focus, Outcome, SourcePool, Stage, Track
from stage_bank.store.rows import BankRow

__all__ = ["BATCHES", "POOL_ODDS", "RoundRow", "materialise"]

BATCHES = 378
"""Batches of a full round."""

POOL_ODDS: Mapping[SourcePool, float] = {SourcePool.TARGET: 0.5, SourcePool.MIX: 0.25, SourcePool.E2E: 0.25}
"""Shares of the pools: of a batch of eight, four, two and two."""


@dataclass(frozen=True)
class RoundRow:
    """One group of a round.

    Args:
        state_id: SHA-256 of round, batch, slot and source, 64 hex digits: new in every round.
        source: the state it practises on.
        pool: why it was chosen.
        batch: 0 for the first.
        slot: place in the batch.
        view: how often the source stood in this round before.
    """

    state_id: str
    source: BankRow
    pool: SourcePool
    batch: int
    slot: int
    view: int


_Cell: TypeAlias = tuple[Focus, Track, Outcome]


def materialise(
    rows: Sequence[BankRow],
    *,
    round_id: str,
    target_stage: Stage,
    tracks: Collection[Track],
    batches: int = BATCHES,
    batch_rows: int = 8,
    pool_odds: Mapping[SourcePool, float] = POOL_ODDS,
) -> list[RoundRow]:
    """Choose the rows of a round, batch by batch.

    Pools get their shares of every batch as nearly as whole rows allow, and exactly over time. Within a pool the next
    row comes from the cell (focus, track, outcome) that was used least, then from the least used focus, track
    and outcome; so every prefix is balanced. A pool or cell without states gives its share to the others.

    Args:
        rows: a snapshot's rows.
        round_id: names the round; equal arguments give equal rounds.
        target_stage: focus of the target pool; every other stage is in the mix pool.
        tracks: tracks to draw from.
        batches: how many batches.
        batch_rows: rows of a batch.
        pool_odds: weight of each pool; need not sum to 1.

    Raises:
        ConfigurationError: negative odds or counts.
        BankError: no state fits.
    """
    if batches < 0 or batch_rows < 0 or any(weight < 0 for weight in pool_odds.values()):
        raise ConfigurationError("odds of pools and numbers of rows must not be negative")
    members: dict[SourcePool, list[BankRow]] = defaultdict(list)
    for row in rows:
        if row.track in tracks:
            members[_pool(row.focus, target_stage)].append(row)
    weights = {pool: pool_odds.get(pool, 0.0) for pool in SourcePool if members[pool]}
    if sum(weights.values()) <= 0.0:
        raise BankError("the bank holds no state of these tracks and pools", remedy="Build a bank that covers them.")
    sources = {pool: _spread(members[pool], round_id) for pool in weights}
    seen: Counter[str] = Counter()
    made = []
    for batch, pools in enumerate(_shares(weights, batches, batch_rows)):
        for slot, pool in enumerate(pools):
            source = next(sources[pool])
            name = _digest(round_id, str(batch), str(slot), source.state_id)
            made.append(RoundRow(name, source, pool, batch, slot, seen[source.state_id]))
            seen[source.state_id] += 1
    return made


def _pool(focus: Focus, target_stage: Stage) -> SourcePool:
    if focus is Focus.E2E:
        return SourcePool.E2E
    return SourcePool.TARGET if focus.value == target_stage.value else SourcePool.MIX


def _shares(weights: Mapping[SourcePool, float], batches: int, batch_rows: int) -> Iterator[list[SourcePool]]:
    """The pool of every slot: each time the pool that lags furthest behind its share."""
    total = sum(weights.values())
    given: Counter[SourcePool] = Counter()
    for batch in range(batches):
        due = {pool: weight / total * batch_rows * (batch + 1) for pool, weight in weights.items()}
        pools = []
        for _ in range(batch_rows):
            pool = max(weights, key=lambda pool: due[pool] - given[pool])
            given[pool] += 1
            pools.append(pool)
        yield sorted(pools, key=list(SourcePool).index)


def _spread(rows: Sequence[BankRow], round_id: str) -> Iterator[BankRow]:
    """Endless rows: the least used cell next, and in a cell every state before one comes again."""
    cells: dict[_Cell, list[BankRow]] = defaultdict(list)
    for row in rows:
        cells[row.focus, row.track, row.outcome].append(row)
    turns = {
        cell: cycle(sorted(members, key=lambda row: _digest(round_id, row.state_id))) for cell, members in cells.items()
    }
    order = {cell: _digest(round_id, *cell) for cell in cells}
    used: Counter[_Cell | Focus | Track | Outcome] = Counter()
    while True:
        cell = min(cells, key=lambda cell: (used[cell], *(used[part] for part in cell), order[cell]))
        used.update((cell, *cell))
        yield next(turns[cell])


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
