"""The bank's index in SQLite: ids, cells and pseudonyms, never content.

A row carries the number of the first snapshot it belongs to and of the first one it no longer belongs to, so that a
snapshot costs one line however many states it holds.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from common.stages import Focus, Outcome, Track
from stage_bank.store.rows import BankRow

__all__ = ["Index"]

_SCHEMA = """
CREATE TABLE states (
    state_id TEXT PRIMARY KEY, focus TEXT NOT NULL, track TEXT NOT NULL, outcome TEXT NOT NULL, patient TEXT NOT NULL,
    bytes INTEGER NOT NULL, added INTEGER NOT NULL, retired INTEGER
) WITHOUT ROWID;
CREATE TABLE snapshots (number INTEGER PRIMARY KEY, seal TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE facts (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
"""
_ROW = "state_id, focus, track, outcome, patient"
_IN_SNAPSHOT = "added <= :number AND (retired IS NULL OR retired > :number)"


class Index:
    """An open index; safe for several readers beside one writer.

    Args:
        file: the database.

    Raises:
        sqlite3.Error: not a database of this form; so does every method when the disk is full or the file damaged.
    """

    def __init__(self, file: Path) -> None:
        self._database = _connect(file)
        self._database.execute(f"SELECT {_ROW}, bytes, added, retired FROM states LIMIT 1")

    @staticmethod
    def create(file: Path, facts: Iterable[tuple[str, bytes]]) -> None:
        """Make an empty index, complete under another name first: an index that exists is an index that opens."""
        partial = file.with_name(file.name + ".partial")
        partial.unlink(missing_ok=True)
        database = _connect(partial)
        with database:
            database.executescript(_SCHEMA)
            database.executemany("INSERT INTO facts VALUES (?, ?)", facts)
        database.close()
        partial.replace(file)

    def fact(self, name: str) -> bytes:
        """A named value, empty when there is none."""
        found = self._database.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return b"" if found is None else bytes(found[0])

    def insert(self, rows: Sequence[tuple[BankRow, int]], number: int) -> None:
        """Add rows with the bytes of their files; they belong to snapshots from `number` on. All of them or none."""
        values = [(r.state_id, r.focus, r.track, r.outcome, r.patient, size, number, None) for r, size in rows]
        with self._database:
            self._database.executemany("INSERT INTO states VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values)

    def contains(self, state_id: str) -> bool:
        """Whether a row with this id is there, in whatever snapshot."""
        found = self._database.execute("SELECT 1 FROM states WHERE state_id = ?", (state_id,)).fetchone()
        return found is not None

    def pending(self, number: int) -> bool:
        """Whether a snapshot with this number would differ from the one before."""
        query = "SELECT 1 FROM states WHERE added = :number OR retired = :number LIMIT 1"
        return self._database.execute(query, {"number": number}).fetchone() is not None

    def rows(self, number: int) -> Iterator[BankRow]:
        """The rows of a snapshot."""
        query = f"SELECT {_ROW} FROM states WHERE {_IN_SNAPSHOT}"
        for state_id, focus, track, outcome, patient in self._database.execute(query, {"number": number}):
            yield BankRow(state_id, Focus(focus), Track(track), Outcome(outcome), patient)

    def stored_bytes(self, number: int) -> int:
        """Encrypted bytes of a snapshot's states."""
        query = f"SELECT COALESCE(SUM(bytes), 0) FROM states WHERE {_IN_SNAPSHOT}"
        return int(self._database.execute(query, {"number": number}).fetchone()[0])

    def oldest(self, number: int) -> list[str]:
        """The ids of a snapshot, those admitted first first."""
        query = f"SELECT state_id FROM states WHERE {_IN_SNAPSHOT} ORDER BY added, state_id"
        return [state_id for (state_id,) in self._database.execute(query, {"number": number})]

    def retire(self, state_ids: Iterable[str], number: int) -> None:
        """Leave states out of snapshots from `number` on."""
        with self._database:
            self._database.executemany(
                "UPDATE states SET retired = ? WHERE state_id = ? AND retired IS NULL",
                ((number, state_id) for state_id in state_ids),
            )

    def seals(self) -> dict[int, str]:
        """Snapshot number to its seal, in order."""
        return dict(self._database.execute("SELECT number, seal FROM snapshots ORDER BY number"))

    def add_snapshot(self, number: int, seal: str) -> None:
        """Put a snapshot on record."""
        with self._database:
            self._database.execute("INSERT INTO snapshots VALUES (?, ?)", (number, seal))

    def forget_before(self, number: int) -> list[str]:
        """Drop the snapshots before `number` and the rows that belong to none that is left.

        Returns:
            The ids of the dropped rows.
        """
        with self._database:
            gone = [i for (i,) in self._database.execute("SELECT state_id FROM states WHERE retired <= ?", (number,))]
            self._database.execute("DELETE FROM states WHERE retired <= ?", (number,))
            self._database.execute("DELETE FROM snapshots WHERE number < ?", (number,))
        return gone

    def all_ids(self) -> list[str]:
        """Every id, sorted."""
        return [state_id for (state_id,) in self._database.execute("SELECT state_id FROM states ORDER BY state_id")]

    @contextmanager
    def consistent(self) -> Iterator[None]:
        """Several reads of one moment, whatever a writer does meanwhile."""
        self._database.execute("BEGIN")
        try:
            yield
        finally:
            self._database.rollback()

    def close(self) -> None:
        """Close the database."""
        self._database.close()


def _connect(file: Path) -> sqlite3.Connection:
    database = sqlite3.connect(file, check_same_thread=False, timeout=10.0)
    file.chmod(0o600)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    return database
