"""The Stage Bank: a site's encrypted, content-addressed set of training states, and snapshots of it to draw from.

A folder holds `index.sqlite` (ids, cells and pseudonyms, never content) and one encrypted file a state. States are
immutable: their id is the digest of their content. A state's file is durable before its row is, and rows count only
once a snapshot names them, so that a process killed at any moment leaves the last snapshot whole. One process writes;
any number read beside it.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from common.errors import BankError
from common.files import write_durably
from stage_bank.state import TrainingState
from stage_bank.store.index import Index
from stage_bank.store.rows import BankRow
from stage_bank.store.snapshot import Snapshot, digest_rows
from stage_bank.store.vault import Vault

__all__ = ["BankStats", "StageBank"]

_INDEX = "index.sqlite"
_STATES = "states"
_CHECK = "key check"


@dataclass(frozen=True)
class BankStats:
    """Site-local figures of a bank's latest snapshot.

    Args:
        snapshot: its number; 0 before the first.
        states: number of states.
        patients: number of patients.
        stored_bytes: encrypted bytes on disk.
        focuses: states by focus.
        tracks: states by track.
        outcomes: states by outcome.
    """

    snapshot: int
    states: int
    patients: int
    stored_bytes: int
    focuses: Mapping[str, int]
    tracks: Mapping[str, int]
    outcomes: Mapping[str, int]


class StageBank:
    """An open bank; made by `create` or `open`, safe to use from several threads."""

    def __init__(self, path: Path, vault: Vault, lock: int | None) -> None:
        self.path = path
        self._vault = vault
        self._writer = lock
        self._index = Index(path / _INDEX)
        self._lock = threading.RLock()
        self._latest: Snapshot | None = None

    @classmethod
    def create(cls, path: Path, vault: Vault) -> StageBank:
        """Make an empty bank and open it for writing.

        Raises:
            BankError: a bank is already there, or the disk is full.
        """
        if (path / _INDEX).exists():
            raise BankError("a bank is already there", where=str(path), remedy="Open it, or move it away.")
        with _disk(path):
            (path / _STATES).mkdir(parents=True, exist_ok=True, mode=0o700)
            path.chmod(0o700)
            Index.create(path / _INDEX, [(_CHECK, vault.seal(_CHECK, b""))])
        return cls.open(path, vault, write=True)

    @classmethod
    def open(cls, path: Path, vault: Vault, *, write: bool = False) -> StageBank:
        """Open a bank and check the key and that the latest snapshot is as it was made.

        Args:
            path: its folder.
            vault: the site's key.
            write: whether to admit states; only one process may at a time.

        Raises:
            BankError: no bank, another key, a changed index, or another process that writes.
        """
        if not (path / _INDEX).is_file():
            raise BankError("no Stage Bank here", where=str(path), remedy="Fill it with `bat-client bank build`.")
        lock = _lock(path) if write else None
        try:
            bank = cls(path, vault, lock)
            vault.open(_CHECK, bank._index.fact(_CHECK))
            bank.latest_snapshot()
        except (sqlite3.Error, ValueError) as error:
            raise BankError(
                "the bank's index is damaged", where=str(path / _INDEX), remedy="Restore or rebuild the bank."
            ) from error
        return bank

    def add(self, state: TrainingState) -> str:
        """Admit a state for good; it belongs to the snapshots made from now on. Admitting it again changes nothing.

        Returns:
            Its id.

        Raises:
            BankError: opened for reading, or the disk is full.
        """
        state_id = state.state_id
        with self._writing():
            if not self._index.contains(state_id):
                envelope = self._vault.seal(state_id, state.to_bytes())
                file = self.file(state_id)
                file.parent.mkdir(exist_ok=True, mode=0o700)
                write_durably(file, envelope)
                row = BankRow(state_id, state.focus, state.track, state.outcome, state.patient)
                self._index.insert([(row, len(envelope))], self._next())
        return state_id

    def snapshot(self) -> Snapshot:
        """Fix what is admitted now; without a change since the last snapshot, that one.

        Raises:
            BankError: the bank is empty or opened for reading, or the disk is full.
        """
        with self._writing():
            number = self._next()
            if self._index.pending(number):
                rows = tuple(sorted(self._index.rows(number)))
                made = Snapshot(number, digest_rows(rows), rows)
                self._index.add_snapshot(number, self._seal(made))
                self._latest = made
            latest = self.latest_snapshot()
        if latest is None or not latest.rows:
            raise BankError("an empty bank has no snapshot", where=str(self.path), remedy="Add states first.")
        return latest

    def latest_snapshot(self) -> Snapshot | None:
        """The newest snapshot, also one that another process made since; `None` before the first.

        Raises:
            BankError: the index was changed after the snapshot was made.
        """
        with self._lock, self._index.consistent():
            seals = self._index.seals()
            if not seals:
                return None
            number = max(seals)
            if self._latest is None or self._latest.number != number:
                self._latest = self._read(number, seals[number])
            return self._latest

    def state(self, state_id: str) -> TrainingState:
        """Decrypt one state.

        Raises:
            BankError: no such state, its file is gone, or it was changed.
        """
        try:
            envelope = self.file(state_id).read_bytes()
        except (OSError, ValueError) as error:
            with self._lock:
                known = self._index.contains(state_id)
            if known:
                raise BankError("a state's file is gone", where=state_id[:16], remedy="Restore the bank.") from error
            raise BankError("no such state in the bank", where=state_id[:16]) from error
        state = TrainingState.from_bytes(self._vault.open(state_id, envelope))
        if state.state_id != state_id:
            raise BankError("a state is not what its id says", where=state_id[:16], remedy="Restore the bank.")
        return state

    def stats(self) -> BankStats:
        """Counts and size of the latest snapshot."""
        latest = self.latest_snapshot() or Snapshot(0, "", ())

        def count(part: Callable[[BankRow], str]) -> dict[str, int]:
            return dict(sorted(Counter(part(row) for row in latest.rows).items()))

        with self._lock:
            stored = self._index.stored_bytes(latest.number)
        return BankStats(
            snapshot=latest.number,
            states=len(latest.rows),
            patients=len({row.patient for row in latest.rows}),
            stored_bytes=stored,
            focuses=count(lambda row: row.focus.value),
            tracks=count(lambda row: row.track.value),
            outcomes=count(lambda row: row.outcome.value),
        )

    def snapshots(self) -> Iterator[Snapshot]:
        """Every snapshot that is kept, oldest first, each checked as it is read.

        Raises:
            BankError: the index was changed after a snapshot was made.
        """
        with self._lock:
            seals = self._index.seals()
        for number, seal in seals.items():
            with self._lock, self._index.consistent():
                snapshot = self._read(number, seal)
            yield snapshot

    def retire(self, most: int) -> int:
        """Leave the states admitted first out of future snapshots until at most `most` are left.

        Returns:
            How many are left out.

        Raises:
            BankError: opened for reading, or the disk is full.
        """
        with self._writing():
            number = self._next()
            ids = self._index.oldest(number)
            surplus = ids[: max(len(ids) - most, 0)]
            self._index.retire(surplus, number)
        return len(surplus)

    def collect_garbage(self, keep: int = 1) -> int:
        """Remove snapshots but the last `keep`, the states in none of those, and files that no row names.

        Returns:
            How many files were removed.

        Raises:
            BankError: opened for reading, or a file cannot be removed.
        """
        with self._writing():
            numbers = list(self._index.seals())
            if numbers:
                self._index.forget_before(numbers[-min(max(keep, 1), len(numbers))])
            orphans = self.orphans()
            for file in orphans:
                file.unlink()
        return len(orphans)

    def orphans(self) -> list[Path]:
        """Files that no row names: what a killed writer leaves behind."""
        with self._lock:
            known = {self.file(state_id) for state_id in self._index.all_ids()}
        return sorted(file for file in (self.path / _STATES).rglob("*") if file.is_file() and file not in known)

    def file(self, state_id: str) -> Path:
        """Where a state's envelope lies."""
        return self.path / _STATES / state_id[:2] / f"{state_id}.state"

    def close(self) -> None:
        """Close the index and let another process write."""
        self._index.close()
        if self._writer is not None:
            os.close(self._writer)
            self._writer = None

    def __enter__(self) -> StageBank:
        """The bank itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the bank."""
        self.close()

    def _next(self) -> int:
        return max(self._index.seals(), default=0) + 1

    def _seal(self, snapshot: Snapshot) -> str:
        return self._vault.authenticate(f"snapshot {snapshot.number} {snapshot.digest}".encode())

    def _read(self, number: int, seal: str) -> Snapshot:
        rows = tuple(sorted(self._index.rows(number)))
        snapshot = Snapshot(number, digest_rows(rows), rows)
        if seal != self._seal(snapshot):
            raise BankError(
                f"the bank's index was changed after snapshot {number} was made",
                where=str(self.path),
                remedy="Restore or rebuild the bank.",
            )
        return snapshot

    @contextmanager
    def _writing(self) -> Iterator[None]:
        if self._writer is None:
            raise BankError("the bank is open for reading", where=str(self.path))
        with self._lock, _disk(self.path):
            yield


def _lock(path: Path) -> int:
    descriptor = os.open(path / "writer.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise BankError(
            "another process is writing this bank", where=str(path), remedy="Wait until it has finished."
        ) from error
    return descriptor


@contextmanager
def _disk(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise BankError(
            f"cannot write the bank: {reason}", where=str(path), remedy="Free disk space and run it again."
        ) from error
