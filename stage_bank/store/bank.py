"""The Stage Bank: a site's encrypted, sealed set of training states, with an index to draw from.

A folder holds `index.sqlite` (ids, cells and pseudonyms, never content) and one encrypted file a state. States are
immutable: their id is the digest of their content, and nothing is overwritten or removed. A state's file is durable
before its row is, so that a crash leaves at worst a file nobody refers to, which adding the same state again replaces.
"""

from __future__ import annotations

import random
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import astuple, dataclass
from pathlib import Path
from types import TracebackType

import numpy as np

from common.canonical import canonical_json, digest_bytes
from common.errors import BankError
from common.stages import Focus, Outcome, SourcePool, Stage, Track
from stage_bank.drawing import BankRow, draw
from stage_bank.state import TrainingState
from stage_bank.vault import Vault, write_durably

__all__ = ["BankRow", "BankStats", "StageBank"]

_INDEX = "index.sqlite"
_STATES = "states"
_CHECK = "key check"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS states (
    state_id TEXT PRIMARY KEY, focus TEXT NOT NULL, track TEXT NOT NULL, outcome TEXT NOT NULL, patient TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
"""


@dataclass(frozen=True)
class BankStats:
    """Site-local figures of a bank.

    Args:
        states: number of states.
        patients: number of patients.
        stored_bytes: encrypted bytes on disk.
        focuses: states by focus.
        tracks: states by track.
        outcomes: states by outcome.
        sealed: whether the bank is closed for admission.
    """

    states: int
    patients: int
    stored_bytes: int
    focuses: Mapping[str, int]
    tracks: Mapping[str, int]
    outcomes: Mapping[str, int]
    sealed: bool


class StageBank:
    """An open bank; made by `create` or `open`, safe to use from several threads."""

    def __init__(self, path: Path, vault: Vault, database: sqlite3.Connection) -> None:
        self._path = path
        self._vault = vault
        self._database = database
        self._lock = threading.Lock()
        self._rows: dict[str, BankRow] = {}
        self._seal: str | None = None

    @classmethod
    def create(cls, path: Path, key_file: Path) -> StageBank:
        """Make an empty bank, and its key file (mode 0600) when there is none yet.

        Raises:
            BankError: a bank is already there, the key cannot be used, or the disk is full.
        """
        if (path / _INDEX).exists():
            raise BankError("a bank is already there", where=str(path), remedy="Open it, or move it away.")
        vault = Vault.load(key_file, create=True)
        try:
            (path / _STATES).mkdir(parents=True, exist_ok=True, mode=0o700)
            path.chmod(0o700)
            _write_empty_index(path / _INDEX, vault)
            database = _connect(path / _INDEX)
        except (OSError, sqlite3.Error) as error:
            raise _disk_error(path, error) from error
        return cls(path, vault, database)

    @classmethod
    def open(cls, path: Path, key_file: Path) -> StageBank:
        """Open a bank and check the key and, when it is sealed, that its index is as it was at sealing.

        Raises:
            BankError: no bank, another key, or a changed index.
        """
        if not (path / _INDEX).is_file():
            raise BankError("no Stage Bank here", where=str(path), remedy="Build it with `bat-client bank build`.")
        vault = Vault.load(key_file)
        try:
            database = _connect(path / _INDEX)
            bank = cls(path, vault, database)
            bank._load()
        except (OSError, sqlite3.Error, ValueError) as error:
            raise BankError(
                "the bank's index is damaged", where=str(path / _INDEX), remedy="Restore or rebuild the bank."
            ) from error
        return bank

    def add(self, state: TrainingState) -> str:
        """Admit a state for good; admitting it again changes nothing.

        Returns:
            Its id.

        Raises:
            BankError: the bank is sealed, or the disk is full.
        """
        state_id = state.state_id
        row = BankRow(state_id, state.focus, state.track, state.outcome, state.patient)
        with self._lock:
            if self._seal is not None:
                raise BankError("the bank is sealed", where=str(self._path), remedy="Build a new bank for new states.")
            if state_id in self._rows:
                return state_id
            try:
                write_durably(self._file(state_id), self._vault.seal(state_id, state.to_bytes()))
                with self._database:
                    self._database.execute("INSERT INTO states VALUES (?, ?, ?, ?, ?)", astuple(row))
            except (OSError, sqlite3.Error) as error:
                raise _disk_error(self._path, error) from error
            self._rows[state_id] = row
        return state_id

    def seal(self) -> str:
        """Close the bank for admission; sealing again returns the same digest.

        Returns:
            Snapshot digest: SHA-256 over all rows (whose ids commit to the contents). Site-local, 64 hex digits.

        Raises:
            BankError: the bank is empty, or the disk is full.
        """
        with self._lock:
            if not self._rows:
                raise BankError("an empty bank cannot be sealed", where=str(self._path), remedy="Add states first.")
            digest = self._digest()
            try:
                with self._database:
                    self._database.execute(
                        "INSERT OR REPLACE INTO facts VALUES ('seal', ?)", (self._vault.authenticate(digest.encode()),)
                    )
            except sqlite3.Error as error:
                raise _disk_error(self._path, error) from error
            self._seal = digest
        return digest

    @property
    def sealed(self) -> bool:
        """Whether the bank is closed for admission."""
        return self._seal is not None

    def state(self, state_id: str) -> TrainingState:
        """Decrypt one state.

        Raises:
            BankError: no such state, its file is gone, or it was changed.
        """
        if state_id not in self._rows:
            raise BankError("no such state in the bank", where=state_id[:16])
        try:
            envelope = self._file(state_id).read_bytes()
        except OSError as error:
            raise BankError("a state's file is gone", where=state_id[:16], remedy="Restore the bank.") from error
        state = TrainingState.from_bytes(self._vault.open(state_id, envelope))
        if state.state_id != state_id:
            raise BankError("a state is not what its id says", where=state_id[:16], remedy="Restore the bank.")
        return state

    def rows(self) -> tuple[BankRow, ...]:
        """The whole index, sorted by id."""
        with self._lock:
            return tuple(self._rows[state_id] for state_id in sorted(self._rows))

    def draw(
        self,
        rng: random.Random | np.random.Generator,
        pool_odds: Mapping[SourcePool, float],
        target_stage: Stage,
        tracks: Collection[Track],
        count: int,
    ) -> list[BankRow]:
        """Draw rows for a round; see `stage_bank.drawing.draw`."""
        return draw(self.rows(), rng, pool_odds=pool_odds, target_stage=target_stage, tracks=tracks, count=count)

    def stats(self) -> BankStats:
        """Counts and size."""
        rows = self.rows()

        def count(part: Callable[[BankRow], str]) -> dict[str, int]:
            return dict(sorted(Counter(part(row) for row in rows).items()))

        return BankStats(
            states=len(rows),
            patients=len({row.patient for row in rows}),
            stored_bytes=sum(self._file(row.state_id).stat().st_size for row in rows),
            focuses=count(lambda row: row.focus.value),
            tracks=count(lambda row: row.track.value),
            outcomes=count(lambda row: row.outcome.value),
            sealed=self.sealed,
        )

    def close(self) -> None:
        """Close the index."""
        self._database.close()

    def __enter__(self) -> StageBank:
        """The bank itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the index."""
        self.close()

    def _file(self, state_id: str) -> Path:
        return self._path / _STATES / f"{state_id}.state"

    def _digest(self) -> str:
        return digest_bytes(canonical_json([astuple(self._rows[state_id]) for state_id in sorted(self._rows)]))

    def _load(self) -> None:
        facts = dict(self._database.execute("SELECT name, value FROM facts"))
        self._vault.open(_CHECK, facts.get(_CHECK, b""))
        for state_id, focus, track, outcome, patient in self._database.execute("SELECT * FROM states"):
            self._rows[state_id] = BankRow(state_id, Focus(focus), Track(track), Outcome(outcome), patient)
        if "seal" in facts:
            digest = self._digest()
            if facts["seal"] != self._vault.authenticate(digest.encode()):
                raise BankError(
                    "the bank's index was changed after sealing", where=str(self._path), remedy="Restore or rebuild it."
                )
            self._seal = digest


def _write_empty_index(file: Path, vault: Vault) -> None:
    """Complete under another name first: an index that exists is an index that opens."""
    partial = file.with_name(file.name + ".partial")
    partial.unlink(missing_ok=True)
    database = _connect(partial)
    with database:
        database.executescript(_SCHEMA)
        database.execute("INSERT INTO facts VALUES (?, ?)", (_CHECK, vault.seal(_CHECK, b"")))
    database.close()
    partial.replace(file)


def _connect(file: Path) -> sqlite3.Connection:
    database = sqlite3.connect(file, check_same_thread=False, timeout=10.0)
    file.chmod(0o600)
    database.execute("PRAGMA synchronous = FULL")
    return database


def _disk_error(path: Path, error: Exception) -> BankError:
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return BankError(f"cannot write the bank: {reason}", where=str(path), remedy="Free disk space and run it again.")
