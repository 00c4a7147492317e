"""The ledger: every edit, deletion, reorder and truncation is found, and a crash loses nothing acknowledged."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from common.errors import LedgerError
from common.ledger import GENESIS, Ledger, verify_ledger
from common.signing import SigningKey

KEY = SigningKey.generate()


def written(path: Path, events: int = 6) -> str:
    ledger = Ledger(path, KEY)
    for number in range(events):
        ledger.append("release", {"round": number})
    ledger.close()
    return ledger.head


def test_a_whole_ledger_verifies_up_to_its_head(tmp_path: Path) -> None:
    head = written(tmp_path / "l.jsonl")
    events = verify_ledger(tmp_path / "l.jsonl", KEY.public, expected_head=head)
    assert [event.body for event in events] == [{"round": number} for number in range(6)]
    assert events[0].previous == GENESIS


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(position=st.integers(0, 10**6), flip=st.integers(1, 255))
@example(position=41, flip=41)
def test_every_single_byte_edit_is_found(tmp_path: Path, position: int, flip: int) -> None:
    path = tmp_path / "l.jsonl"
    path.unlink(missing_ok=True)
    head = written(path, events=3)
    data = bytearray(path.read_bytes())
    data[position % len(data)] ^= flip
    path.write_bytes(data)
    with pytest.raises(LedgerError):
        verify_ledger(path, KEY.public, expected_head=head)


@pytest.mark.parametrize(
    ("edit", "event"),
    [
        (lambda lines: lines[:2] + lines[3:], "event 2"),
        (lambda lines: [lines[0], lines[2], lines[1], *lines[3:]], "event 1"),
        (lambda lines: [*lines[:3], lines[2], *lines[3:]], "event 3"),
    ],
)
def test_deletion_reorder_and_repetition_name_the_first_bad_event(tmp_path: Path, edit, event) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "l.jsonl"
    written(path)
    path.write_text("".join(edit(path.read_text().splitlines(keepends=True))))
    with pytest.raises(LedgerError, match=event):
        verify_ledger(path, KEY.public)


def test_truncation_is_found_against_a_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    head = written(path)
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    verify_ledger(path, KEY.public)
    with pytest.raises(LedgerError, match="truncated"):
        verify_ledger(path, KEY.public, expected_head=head)


@pytest.mark.parametrize("line", ["", "[]", "{}", "1", "{" * 5, "[" * 5000, "\ufeff{}"])
def test_a_line_that_is_no_event_is_one_error(tmp_path: Path, line: str) -> None:
    path = tmp_path / "ledger.jsonl"
    path.write_text(f"{line}\n")
    with pytest.raises(LedgerError, match="event 0"):
        verify_ledger(path, KEY.public)


def test_a_foreign_key_is_named(tmp_path: Path) -> None:
    written(tmp_path / "l.jsonl")
    with pytest.raises(LedgerError, match="foreign key"):
        verify_ledger(tmp_path / "l.jsonl", SigningKey.generate().public)


def test_a_line_cut_by_a_crash_is_dropped_and_the_chain_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    written(path, events=3)
    with path.open("ab") as stream:
        stream.write(b'{"sequence": 3, "ki')
    with pytest.raises(LedgerError, match="cut short"):
        verify_ledger(path, KEY.public)
    ledger = Ledger(path, KEY)
    ledger.append("release", {"round": 3})
    ledger.close()
    assert len(verify_ledger(path, KEY.public)) == 4


def test_only_one_writer_at_a_time(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "l.jsonl", KEY)
    with pytest.raises(LedgerError, match="another process"):
        Ledger(tmp_path / "l.jsonl", KEY)
    ledger.close()


def test_a_full_disk_is_one_error_and_leaves_the_ledger_as_it_was(tmp_path: Path) -> None:
    """In a process of its own, whose files may not grow beyond a limit."""
    code = (
        "import resource, sys; from pathlib import Path; from common.ledger import Ledger;"
        "from common.signing import SigningKey; from common.errors import LedgerError;"
        "path = Path(sys.argv[1]); key = SigningKey.load_or_create(path.with_name('key')); ledger = Ledger(path, key);"
        "ledger.append('first', {}); size = path.stat().st_size;"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, size + 100))\n"
        "try: ledger.append('second', {'long': 'x' * 500}); sys.exit('written')\n"
        "except LedgerError as error: print(error)\n"
        "assert path.stat().st_size == size\n"
    )
    path = tmp_path / "ledger.jsonl"
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "cannot write this ledger" in done.stdout
    key = SigningKey.load(tmp_path / "key")
    Ledger(path, key).append("third", {})
    assert [event.kind for event in verify_ledger(path, key.public)] == ["first", "third"]
