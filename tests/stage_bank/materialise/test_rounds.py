"""The round: shares of the pools, balance at every length, and the same again for the same name."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.errors import BankError, BatError, ConfigurationError
from common.stages import Focus, Outcome, SourcePool, Stage, Track
from stage_bank.materialise import RoundRow, materialise
from stage_bank.store import BankRow


def rows(per_cell: int = 2, tracks: tuple[Track, ...] = tuple(Track)) -> list[BankRow]:
    """A full grid."""
    cells = [(f, t, o) for f in Focus for t in tracks for o in Outcome for _ in range(per_cell)]
    return [
        BankRow(f"{i:064x}", focus, track, outcome, f"{i % 5:032x}") for i, (focus, track, outcome) in enumerate(cells)
    ]


def made(
    index: list[BankRow], name: str = "r", batches: int = 6, target: Stage = Stage.VALIDATE, **more
) -> list[RoundRow]:  # type: ignore[no-untyped-def]
    return materialise(index, round_id=name, target_stage=target, tracks=list(Track), batches=batches, **more)


@given(batches=st.integers(0, 12), target=st.sampled_from(list(Stage)))
def test_every_batch_has_four_target_two_mix_and_two_end_to_end(batches: int, target: Stage) -> None:
    result = made(rows(), batches=batches, target=target)
    assert [row.batch for row in result] == [batch for batch in range(batches) for _ in range(8)]
    for batch in range(batches):
        members = [row for row in result if row.batch == batch]
        assert [row.slot for row in members] == list(range(8))
        focuses = Counter(row.source.focus.value for row in members)
        assert (focuses[target.value], focuses["E2E"]) == (4, 2)
        assert len({row.source.focus for row in members if row.pool is SourcePool.MIX}) == 2


def test_the_full_round_is_balanced_over_tracks_outcomes_and_cells() -> None:
    result = made(rows(), batches=378)
    assert len(result) == 3024
    for pool, cells in ((SourcePool.TARGET, 21), (SourcePool.MIX, 84), (SourcePool.E2E, 21)):
        chosen = [row.source for row in result if row.pool is pool]
        counts = Counter((one.focus, one.track, one.outcome) for one in chosen)
        assert len(counts) == cells
        assert max(counts.values()) - min(counts.values()) <= 1
    for part in ("track", "outcome"):
        counts = Counter(getattr(row.source, part) for row in result)
        assert max(counts.values()) - min(counts.values()) <= 3


@given(st.integers(1, 60))
def test_every_prefix_of_a_pool_is_balanced(length: int) -> None:
    chosen = [row.source for row in made(rows(), batches=20) if row.pool is SourcePool.TARGET][:length]
    for part, kinds in (("track", 7), ("outcome", 3)):
        counts = Counter(getattr(one, part) for one in chosen)
        assert max(counts.values()) - (min(counts.values()) if len(counts) == kinds else 0) <= 1


def test_a_state_comes_again_only_when_its_cell_is_used_up_and_is_then_another_view() -> None:
    result = [row for row in made(rows(3), batches=30) if row.pool is SourcePool.E2E]
    assert Counter(row.source.state_id for row in result[:60]).most_common(1)[0][1] == 1
    again = made(rows(1), batches=30)
    by_source: dict[str, list[int]] = {}
    for row in again:
        by_source.setdefault(row.source.state_id, []).append(row.view)
    assert all(views == list(range(len(views))) for views in by_source.values())
    assert len({row.state_id for row in again}) == len(again)


def test_equal_names_give_equal_rounds_and_others_do_not() -> None:
    assert made(rows(), "a") == made(list(reversed(rows())), "a")
    first, second = made(rows(), "a"), made(rows(), "b")
    assert not {row.state_id for row in first} & {row.state_id for row in second}
    assert [row.source for row in first] != [row.source for row in second]


@given(batches=st.integers(1, 40), size=st.integers(1, 9), weights=st.tuples(*[st.floats(0, 1)] * 3))
def test_any_odds_and_batch_sizes_are_kept_over_time(batches: int, size: int, weights: tuple[float, ...]) -> None:
    if sum(weights) < 0.01:
        return
    odds = dict(zip(SourcePool, weights, strict=True))
    result = made(rows(), batches=batches, batch_rows=size, pool_odds=odds)
    assert len(result) == batches * size
    for pool, weight in odds.items():
        share = weight / sum(weights) * len(result)
        assert abs(sum(row.pool is pool for row in result) - share) <= 2 + 1e-6


@given(st.sets(st.integers(0, 125), min_size=1))
def test_empty_cells_and_pools_give_their_share_to_the_others(kept: set[int]) -> None:
    assert len(made([row for number, row in enumerate(rows(1)) if number in kept])) == 48


def test_only_the_tracks_asked_for_are_drawn() -> None:
    result = materialise(rows(), round_id="r", target_stage=Stage.PLAN, tracks=[Track.SEGMENTATION], batches=3)
    assert {row.source.track for row in result} == {Track.SEGMENTATION}


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"index": []}, BankError),
        ({"index": rows(1, (Track.VQA,)), "pool_odds": {SourcePool.TARGET: 0.0}}, BankError),
        ({"pool_odds": {SourcePool.MIX: -1.0}}, ConfigurationError),
        ({"batches": -1}, ConfigurationError),
    ],
)
def test_impossible_rounds_are_refused(change: dict[str, object], error: type[BatError]) -> None:
    with pytest.raises(error):
        made(**{"index": rows(), **change})  # type: ignore[arg-type]
