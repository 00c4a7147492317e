"""What stands for a UID or a patient: a keyed hash, or a random number kept in the site's own table."""

from __future__ import annotations

import hashlib
import hmac
import os
import sqlite3
import threading
from pathlib import Path
from typing import Protocol

from common.errors import ConfigurationError
from stage_bank.dicom.identity import Identity, pseudonym

__all__ = ["KeyedNames", "Names", "RandomNames", "remap_uid"]

_BYTES = 16


class Names(Protocol):
    """Gives stand-ins; the same original always gives the same one, so that references still match."""

    def uid(self, original: str) -> str:
        """A UID of the form `2.25.` and a 128-bit number (PS3.5 B.2)."""

    def patient(self, identity: Identity) -> str:
        """32 hex digits."""


class KeyedNames:
    """Stand-ins computed with HMAC-SHA-256.

    Args:
        site_key: secret of the site.
    """

    def __init__(self, site_key: bytes) -> None:
        self._key = site_key

    def uid(self, original: str) -> str:
        """See `Names.uid`."""
        return remap_uid(original, self._key)

    def patient(self, identity: Identity) -> str:
        """See `Names.patient`."""
        return pseudonym(self._key, identity)


class RandomNames:
    """Stand-ins drawn from OS entropy and kept in a table, so that they say nothing about the original at all.

    The table holds keyed hashes of the originals, never the originals. Several processes may share it.

    Args:
        table: SQLite file, made with mode 0600 when absent.
        site_key: secret of the site; a table serves one key only.

    Raises:
        ConfigurationError: the file cannot be made or is no such table.
    """

    def __init__(self, table: Path, site_key: bytes) -> None:
        self._key = site_key
        self._known: dict[bytes, bytes] = {}
        self._lock = threading.Lock()
        try:
            os.close(os.open(table, os.O_CREAT | os.O_RDWR, 0o600))
            self._table = sqlite3.connect(table, timeout=60, isolation_level=None, check_same_thread=False)
            self._table.execute("CREATE TABLE IF NOT EXISTS names (original BLOB PRIMARY KEY, name BLOB NOT NULL)")
        except (OSError, sqlite3.Error) as error:
            raise ConfigurationError(
                "the table of random UIDs cannot be used", where=str(table), remedy="Name another file."
            ) from error

    def uid(self, original: str) -> str:
        """See `Names.uid`."""
        return f"2.25.{int.from_bytes(self._name(b'uid', _bytes(original)), 'big')}"

    def patient(self, identity: Identity) -> str:
        """See `Names.patient`."""
        return self._name(b"patient", f"{identity.issuer}\0{identity.patient_id}".encode()).hex()

    def _name(self, kind: bytes, original: bytes) -> bytes:
        lookup = hmac.new(self._key, kind + b"\0" + original, hashlib.sha256).digest()
        with self._lock:
            if lookup not in self._known:
                self._table.execute("INSERT OR IGNORE INTO names VALUES (?, ?)", (lookup, os.urandom(_BYTES)))
                row = self._table.execute("SELECT name FROM names WHERE original = ?", (lookup,)).fetchone()
                self._known[lookup] = bytes(row[0])
            return self._known[lookup]


def remap_uid(uid: str, site_key: bytes) -> str:
    """The site's keyed stand-in for a UID: `2.25.` and 128 bits of HMAC-SHA-256 (PS3.5 B.2 form)."""
    digest = hmac.new(site_key, b"uid\0" + _bytes(uid), hashlib.sha256).digest()
    return f"2.25.{int.from_bytes(digest[:_BYTES], 'big')}"


def _bytes(uid: str) -> bytes:
    return uid.strip(" \0").encode("utf-8", "backslashreplace")
