import os
import random
import sqlite3
import stat
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.errors import BankError, BatError, ConfigurationError
from common.stages import Focus, Outcome, SourcePool, Stage, Track
from stage_bank.bank import BankRow, StageBank
from stage_bank.drawing import draw
from stage_bank.state import TrainingState

TRACKS = (Track.CLASSIFICATION, Track.ENHANCEMENT, Track.SEGMENTATION)
ODDS = {SourcePool.TARGET: 0.5, SourcePool.MIX: 0.25, SourcePool.E2E: 0.25}


def state(number: int = 0, focus: Focus = Focus.S1, track: Track = Track.ENHANCEMENT) -> TrainingState:
    return TrainingState(
        focus=focus,
        track=track,
        outcome=list(Outcome)[number % 3],
        patient=f"{number % 4:032x}",
        prompt="track enhancement stage S1",
        files={"cases/case1/image.npy": b"secret pixels %d" % number * 50},
        hidden={"reference.npy": b"secret reference"},
        condition={"kind": "impulse"},
    )


@pytest.fixture
def bank(tmp_path):
    with StageBank.create(tmp_path / "bank", tmp_path / "keys" / "bank.key") as made:
        yield made


def reopen(tmp_path: Path) -> StageBank:
    return StageBank.open(tmp_path / "bank", tmp_path / "keys" / "bank.key")


def test_a_state_comes_back_as_it_went_in(bank, tmp_path):
    state_id = bank.add(state(7))
    assert state_id == state(7).state_id
    assert bank.state(state_id) == state(7)
    assert reopen(tmp_path).state(state_id) == state(7)


def test_rows_say_the_cell_and_the_patient_and_are_sorted(bank):
    ids = [bank.add(state(number)) for number in range(5)]
    rows = bank.rows()
    assert [row.state_id for row in rows] == sorted(ids)
    assert bank.rows()[0] == BankRow(rows[0].state_id, Focus.S1, Track.ENHANCEMENT, rows[0].outcome, rows[0].patient)


def test_nothing_readable_is_on_disk_and_everything_is_private(bank, tmp_path):
    bank.add(state())
    for path in [*(tmp_path / "bank").rglob("*"), tmp_path / "keys" / "bank.key"]:
        if path.is_file():
            assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
            assert b"secret" not in path.read_bytes()
            assert b"impulse" not in path.read_bytes()
    assert stat.S_IMODE((tmp_path / "bank").stat().st_mode) == 0o700


def test_the_same_state_is_encrypted_differently_every_time(tmp_path):
    envelopes = set()
    for name in ("one", "two"):
        with StageBank.create(tmp_path / name, tmp_path / "bank.key") as made:
            state_id = made.add(state())
        envelopes.add((tmp_path / name / "states" / f"{state_id}.state").read_bytes())
    assert len(envelopes) == 2


def test_admitting_twice_changes_nothing(bank):
    bank.add(state())
    before = bank.stats()
    bank.add(state())
    assert bank.stats() == before


def test_a_sealed_bank_admits_nothing_and_keeps_its_digest(bank, tmp_path):
    bank.add(state(1))
    digest = bank.seal()
    assert bank.seal() == digest
    with pytest.raises(BankError, match="sealed"):
        bank.add(state(2))
    again = reopen(tmp_path)
    assert again.sealed
    assert again.seal() == digest
    with pytest.raises(BankError, match="sealed"):
        again.add(state(2))


def test_the_snapshot_digest_depends_on_the_states_and_not_on_their_order(tmp_path):
    digests = []
    for name, numbers in (("a", (1, 2)), ("b", (2, 1)), ("c", (1, 3))):
        with StageBank.create(tmp_path / name, tmp_path / f"{name}.key") as made:
            for number in numbers:
                made.add(state(number))
            digests.append(made.seal())
    assert digests[0] == digests[1] != digests[2]


def test_an_empty_bank_cannot_be_sealed(bank):
    with pytest.raises(BankError, match="empty"):
        bank.seal()


def test_another_key_is_refused(bank, tmp_path):
    bank.add(state())
    other = tmp_path / "other.key"
    other.write_bytes(os.urandom(32))
    other.chmod(0o600)
    with pytest.raises(BankError, match="another key"):
        StageBank.open(tmp_path / "bank", other)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda key: key.chmod(0o644), "readable by others"),
        (lambda key: key.write_bytes(b"short"), "32 bytes"),
        (lambda key: key.unlink(), "cannot read"),
    ],
)
def test_a_key_that_cannot_be_trusted_is_refused(bank, tmp_path, spoil, message):
    bank.add(state())
    spoil(tmp_path / "keys" / "bank.key")
    with pytest.raises(BankError, match=message) as caught:
        reopen(tmp_path)
    assert caught.value.remedy


@settings(max_examples=30, deadline=None)
@given(position=st.floats(0, 1, exclude_max=True), flip=st.integers(1, 255))
def test_any_changed_byte_of_a_state_is_noticed(tmp_path_factory, position, flip):
    folder = tmp_path_factory.mktemp("tamper")
    with StageBank.create(folder / "bank", folder / "key") as made:
        state_id = made.add(state())
        file = folder / "bank" / "states" / f"{state_id}.state"
        data = bytearray(file.read_bytes())
        data[int(position * len(data))] ^= flip
        file.write_bytes(data)
        with pytest.raises(BankError):
            made.state(state_id)


def test_a_state_in_the_place_of_another_is_noticed(bank, tmp_path):
    first, second = bank.add(state(1)), bank.add(state(2))
    folder = tmp_path / "bank" / "states"
    (folder / f"{first}.state").write_bytes((folder / f"{second}.state").read_bytes())
    with pytest.raises(BankError, match="changed"):
        bank.state(first)


def test_a_missing_file_or_an_unknown_id_is_a_bank_error(bank, tmp_path):
    state_id = bank.add(state())
    (tmp_path / "bank" / "states" / f"{state_id}.state").unlink()
    with pytest.raises(BankError, match="gone"):
        bank.state(state_id)
    with pytest.raises(BankError, match="no such state"):
        bank.state("0" * 64)


@pytest.mark.parametrize(
    "edit",
    ["UPDATE states SET patient = 'someone else'", "DELETE FROM states WHERE outcome = 'success'", "DROP TABLE states"],
)
def test_an_edited_index_is_noticed_after_sealing(bank, tmp_path, edit):
    for number in range(3):
        bank.add(state(number))
    bank.seal()
    bank.close()
    with sqlite3.connect(tmp_path / "bank" / "index.sqlite") as database:
        database.execute(edit)
    with pytest.raises(BankError):
        reopen(tmp_path)


def test_a_file_that_is_no_index_is_a_bank_error(bank, tmp_path):
    bank.close()
    (tmp_path / "bank" / "index.sqlite").write_bytes(b"not a database" * 100)
    with pytest.raises(BankError, match="damaged"):
        reopen(tmp_path)


def test_no_bank_and_a_bank_in_the_way(bank, tmp_path):
    with pytest.raises(BankError, match="no Stage Bank"):
        StageBank.open(tmp_path / "elsewhere", tmp_path / "keys" / "bank.key")
    with pytest.raises(BankError, match="already there"):
        StageBank.create(tmp_path / "bank", tmp_path / "keys" / "bank.key")


def test_a_full_disk_is_one_clear_error_and_the_bank_stays_usable(bank, tmp_path, monkeypatch):
    bank.add(state(1))

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(BankError, match="No space left"):
            bank.add(state(2))
    assert len(list((tmp_path / "bank" / "states").iterdir())) == 1
    bank.add(state(2))
    assert len(reopen(tmp_path).rows()) == 2


_KILLED = """
import os, sys
from pathlib import Path
from stage_bank.bank import StageBank
from tests.stage_bank.test_bank import state
root, moment = Path(sys.argv[1]), int(sys.argv[2])
calls = 0
def dying(descriptor, real=os.fsync):
    global calls
    calls += 1
    if calls == moment:
        os._exit(9)
    real(descriptor)
os.fsync = dying
bank = StageBank.open(root / "bank", root / "keys" / "bank.key")
for number in range(1, 6):
    bank.add(state(number))
"""


@pytest.mark.parametrize("moment", [1, 2, 3, 4, 7])
def test_a_killed_process_leaves_a_bank_that_opens_and_goes_on(bank, tmp_path, moment):
    """The file is durable before its row: whatever the moment, every row has its state."""
    bank.add(state(0))
    bank.close()
    root = Path(__file__).parents[2]
    killed = subprocess.run(
        [sys.executable, "-c", _KILLED, str(tmp_path), str(moment)], cwd=root, timeout=60, check=False
    )
    assert killed.returncode == 9
    again = reopen(tmp_path)
    for row in again.rows():
        again.state(row.state_id)
    for number in range(6):
        again.add(state(number))
    assert again.stats().states == 6


def test_stats_count_cells_and_patients(bank):
    for number in range(6):
        bank.add(state(number, focus=list(Focus)[number]))
    stats = bank.stats()
    assert (stats.states, stats.patients, stats.sealed) == (6, 4, False)
    assert stats.outcomes == {"success": 2, "recovery": 2, "failure": 2}
    assert stats.focuses == {focus.value: 1 for focus in Focus}
    assert stats.stored_bytes > 0


def rows(per_cell: int = 2) -> list[BankRow]:
    """A full grid."""
    cells = [(f, t, o) for f in Focus for t in TRACKS for o in Outcome for _ in range(per_cell)]
    return [BankRow(f"{i:064x}", focus, track, outcome, "p") for i, (focus, track, outcome) in enumerate(cells)]


def drawn(index, seed=0, count=16, odds=ODDS, target=Stage.VALIDATE, tracks=TRACKS):
    return draw(index, random.Random(seed), pool_odds=odds, target_stage=target, tracks=tracks, count=count)


@given(seed=st.integers(0, 1000), batches=st.integers(1, 6), target=st.sampled_from(list(Stage)))
def test_a_batch_of_eight_has_four_target_two_mix_and_two_end_to_end(seed, batches, target):
    focuses = Counter(row.focus.value for row in drawn(rows(), seed, 8 * batches, target=target))
    assert (focuses[target.value], focuses["E2E"]) == (4 * batches, 2 * batches)


def test_tracks_and_outcomes_of_a_pool_are_even():
    target = [row for row in drawn(rows(), count=72) if row.focus == "S3"]
    assert set(Counter((row.track, row.outcome) for row in target).values()) == {4}


def test_states_repeat_only_when_a_cell_is_used_up():
    target = [row.state_id for row in drawn(rows(4), count=72) if row.focus == "S3"]
    assert len(target) == len(set(target)) == 36


@given(count=st.integers(0, 40), weights=st.tuples(*[st.floats(0, 1)] * 3).filter(lambda w: sum(w) > 0.01))
def test_any_odds_give_as_many_rows_as_asked(count, weights):
    odds = dict(zip(SourcePool, weights, strict=True))
    result = drawn(rows(), count=count, odds=odds)
    pools = Counter("E2E" if r.focus == "E2E" else "target" if r.focus == "S3" else "mix" for r in result)
    assert len(result) == count
    for pool, weight in zip(("target", "mix", "E2E"), weights, strict=True):
        assert abs(pools[pool] - count * weight / sum(weights)) <= 1 + 1e-6


@given(st.sets(st.integers(0, 53), min_size=1))
def test_empty_cells_and_pools_give_their_share_to_the_others(kept):
    index = [row for number, row in enumerate(rows(1)) if number in kept]
    assert len(drawn(index)) == 16


def test_only_the_tracks_asked_for_are_drawn():
    assert {row.track for row in drawn(rows(), tracks=[Track.SEGMENTATION])} == {Track.SEGMENTATION}


def test_equal_generators_give_equal_draws_of_either_kind():
    assert drawn(rows(), 5) == drawn(rows(), 5) != drawn(rows(), 6)
    one, two = (
        draw(rows(), np.random.default_rng(3), pool_odds=ODDS, target_stage=Stage.PLAN, tracks=TRACKS, count=8)
        for _ in range(2)
    )
    assert one == two


def test_the_bank_draws_from_its_own_rows(bank):
    for number in range(6):
        bank.add(state(number, focus=list(Focus)[number]))
    result = bank.draw(random.Random(1), ODDS, Stage.PLAN, TRACKS, 8)
    assert Counter(row.focus.value for row in result)["S1"] == 4


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"index": []}, BankError),
        ({"tracks": [Track.VQA]}, BankError),
        ({"odds": {SourcePool.MIX: -1.0}}, ConfigurationError),
        ({"count": -1}, ConfigurationError),
    ],
)
def test_impossible_draws_are_refused(change, error):
    with pytest.raises(error) as caught:
        drawn(**{"index": rows(), **change})
    assert isinstance(caught.value, BatError)
