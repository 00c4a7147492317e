import os
import random
import sqlite3
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.errors import BankError
from common.stages import Focus, Outcome, Track
from stage_bank.state import TrainingState
from stage_bank.store import BankRow, StageBank, Vault
from stage_bank.store.checkup import Checkup, check_bank


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


def vault(tmp_path: Path) -> Vault:
    return Vault.load(tmp_path / "keys" / "bank.key", create=True)


@pytest.fixture
def bank(tmp_path):
    with StageBank.create(tmp_path / "bank", vault(tmp_path)) as made:
        yield made


def reopen(tmp_path: Path) -> StageBank:
    return StageBank.open(tmp_path / "bank", Vault.load(tmp_path / "keys" / "bank.key"))


def test_a_state_comes_back_as_it_went_in(bank, tmp_path):
    state_id = bank.add(state(7))
    assert state_id == state(7).state_id
    assert bank.state(state_id) == state(7)
    assert reopen(tmp_path).state(state_id) == state(7)


def test_rows_say_the_cell_and_the_patient_and_are_sorted(bank):
    ids = [bank.add(state(number)) for number in range(5)]
    rows = bank.snapshot().rows
    assert [row.state_id for row in rows] == sorted(ids)
    assert rows[0] == BankRow(rows[0].state_id, Focus.S1, Track.ENHANCEMENT, rows[0].outcome, rows[0].patient)


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
        with StageBank.create(tmp_path / name, Vault(bytes(32))) as made:
            envelopes.add(made.file(made.add(state())).read_bytes())
    assert len(envelopes) == 2


def test_admitting_twice_changes_nothing(bank):
    bank.add(state())
    before = bank.snapshot()
    bank.add(state())
    assert bank.snapshot() is before


def test_a_snapshot_stays_as_it_is_while_states_come_in(bank, tmp_path):
    bank.add(state(1))
    first = bank.snapshot()
    assert bank.snapshot() is first
    bank.add(state(2))
    reader = reopen(tmp_path)
    assert reader.latest_snapshot() == first
    second = bank.snapshot()
    assert (second.number, len(first.rows), len(second.rows)) == (2, 1, 2)
    assert reader.latest_snapshot() == second
    assert list(reader.snapshots()) == [first, second]


def test_the_digest_depends_on_the_states_and_not_on_their_order(tmp_path):
    digests = []
    for name, numbers in (("a", (1, 2)), ("b", (2, 1)), ("c", (1, 3))):
        with StageBank.create(tmp_path / name, Vault(bytes(32))) as made:
            for number in numbers:
                made.add(state(number))
            digests.append(made.snapshot().digest)
    assert digests[0] == digests[1] != digests[2]


def test_an_empty_bank_has_no_snapshot(bank):
    assert bank.latest_snapshot() is None
    with pytest.raises(BankError, match="empty"):
        bank.snapshot()


def test_one_process_writes_and_others_read(bank, tmp_path):
    with pytest.raises(BankError, match="another process"):
        StageBank.open(tmp_path / "bank", vault(tmp_path), write=True)
    reader = reopen(tmp_path)
    for change in (lambda: reader.add(state()), reader.snapshot, reader.collect_garbage, lambda: reader.retire(0)):
        with pytest.raises(BankError, match="for reading"):
            change()
    bank.close()
    with StageBank.open(tmp_path / "bank", vault(tmp_path), write=True) as writer:
        writer.add(state())


def test_garbage_is_what_no_kept_snapshot_holds(bank, tmp_path):
    for number in range(4):
        bank.add(state(number))
    bank.snapshot()
    assert bank.retire(most=1) == 3
    kept = bank.snapshot()
    assert len(kept.rows) == 1
    stray = tmp_path / "bank" / "states" / "00" / "x.state.partial"
    stray.parent.mkdir(exist_ok=True)
    stray.write_bytes(b"left by a killed writer")
    assert check_bank(bank).leftovers == 1
    assert bank.collect_garbage(keep=2) == 1
    assert [len(one.rows) for one in bank.snapshots()] == [4, 1]
    assert bank.collect_garbage(keep=1) == 3
    assert list(bank.snapshots()) == [kept]
    assert check_bank(bank) == Checkup(snapshots=1, states=1, damaged=(), leftovers=0)
    with pytest.raises(BankError, match="no such state"):
        bank.state(next(s.state_id for s in map(state, range(4)) if s.state_id != kept.rows[0].state_id))


def test_a_checkup_names_everything_that_is_damaged(bank, tmp_path):
    ids = [bank.add(state(number)) for number in range(4)]
    bank.snapshot()
    bank.file(ids[0]).write_bytes(b"damaged")
    bank.file(ids[1]).unlink()
    found = check_bank(reopen(tmp_path))
    assert (found.snapshots, found.states, len(found.damaged)) == (1, 2, 2)
    assert all(any(state_id[:16] in line for line in found.damaged) for state_id in ids[:2])


def test_another_key_is_refused(bank, tmp_path):
    bank.add(state())
    other = tmp_path / "other.key"
    other.write_bytes(os.urandom(32))
    other.chmod(0o600)
    with pytest.raises(BankError, match="another key"):
        StageBank.open(tmp_path / "bank", Vault.load(other))


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
    with StageBank.create(folder / "bank", Vault(bytes(32))) as made:
        state_id = made.add(state())
        file = made.file(state_id)
        data = bytearray(file.read_bytes())
        data[int(position * len(data))] ^= flip
        file.write_bytes(data)
        with pytest.raises(BankError):
            made.state(state_id)


def test_a_state_in_the_place_of_another_is_noticed(bank, tmp_path):
    first, second = bank.add(state(1)), bank.add(state(2))
    bank.file(first).write_bytes(bank.file(second).read_bytes())
    with pytest.raises(BankError, match="changed"):
        bank.state(first)


def test_a_missing_file_or_an_unknown_id_is_a_bank_error(bank, tmp_path):
    state_id = bank.add(state())
    bank.file(state_id).unlink()
    with pytest.raises(BankError, match="gone"):
        bank.state(state_id)
    with pytest.raises(BankError, match="no such state"):
        bank.state("0" * 64)


@pytest.mark.parametrize(
    "edit",
    ["UPDATE states SET patient = 'someone else'", "DELETE FROM states WHERE outcome = 'success'", "DROP TABLE states"],
)
def test_an_edited_index_is_noticed(bank, tmp_path, edit):
    for number in range(3):
        bank.add(state(number))
    bank.snapshot()
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
        StageBank.open(tmp_path / "elsewhere", vault(tmp_path))
    with pytest.raises(BankError, match="already there"):
        StageBank.create(tmp_path / "bank", vault(tmp_path))


def test_a_full_disk_is_one_clear_error_and_the_bank_stays_usable(bank, tmp_path, monkeypatch):
    bank.add(state(1))

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(BankError, match="No space left"):
            bank.add(state(2))
    assert check_bank(bank).leftovers == 0
    bank.add(state(2))
    bank.snapshot()
    assert reopen(tmp_path).stats().states == 2


_WRITER = """
import sys
from pathlib import Path
from stage_bank.store import StageBank, Vault
from tests.stage_bank.store.test_bank import state
root = Path(sys.argv[1])
with StageBank.open(root / "bank", Vault.load(root / "keys" / "bank.key"), write=True) as bank:
    print("ready", flush=True)
    for number in range(int(sys.argv[2]), 100_000):
        bank.add(state(number))
        if number % 3 == 0:
            print(bank.snapshot().number, flush=True)
        if number % 17 == 0:
            bank.retire(most=9)
            bank.collect_garbage(keep=2)
"""


def test_a_writer_killed_at_any_moment_leaves_the_last_snapshot_whole(bank, tmp_path):
    """Thirty writers, each killed at its own random moment; no acknowledged snapshot is lost, no state is broken."""
    bank.add(state(0))
    acknowledged = bank.snapshot().number
    bank.close()
    rng = random.Random(0)
    for turn in range(30):
        writer = subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(tmp_path), str(1000 * turn + 1)],
            cwd=Path(__file__).parents[3],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        time.sleep(rng.uniform(0.0, 0.12))
        writer.kill()
        acknowledged = max([acknowledged, *(int(line) for line in writer.stdout.read().split())])
        writer.wait()
        with reopen(tmp_path) as again:
            latest = again.latest_snapshot()
            assert latest is not None
            assert latest.number >= acknowledged
            assert check_bank(again).damaged == ()
    with StageBank.open(tmp_path / "bank", vault(tmp_path), write=True) as again:
        again.collect_garbage()
        assert check_bank(again).leftovers == 0


def test_stats_count_cells_and_patients(bank):
    for number in range(6):
        bank.add(state(number, focus=list(Focus)[number]))
    assert bank.stats().states == 0
    bank.snapshot()
    stats = bank.stats()
    assert (stats.snapshot, stats.states, stats.patients) == (1, 6, 4)
    assert stats.outcomes == {"success": 2, "recovery": 2, "failure": 2}
    assert stats.focuses == {focus.value: 1 for focus in Focus}
    assert stats.stored_bytes > 0


def test_a_key_can_come_from_a_command(tmp_path):
    script = tmp_path / "secret"
    script.write_text(f"#!/bin/sh\necho {'ab' * 32}\n")
    script.chmod(0o700)
    envelope = Vault(bytes.fromhex("ab" * 32)).seal("name", b"plain")
    assert Vault.from_command([str(script)]).open("name", envelope) == b"plain"


@pytest.mark.parametrize("command", [["false"], ["/no/such/program"], ["echo", "zz"], ["echo", "abcd"]])
def test_a_key_command_that_gives_none_is_one_error_without_its_output(command):
    with pytest.raises(BankError, match="key command") as caught:
        Vault.from_command(command)
    assert "abcd" not in str(caught.value)
