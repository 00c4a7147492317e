"""An append-only, hash-chained, signed record of everything that matters: one JSON line an event.

Each line holds the digest of the line before it, so that an edit, a deletion or a reorder breaks the chain at the
first bad line. A truncation at the end is found against a checkpoint: the head digest another party co-signed.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.canonical import Json, digest_json
from common.errors import LedgerError, SigningError
from common.files import read_regular
from common.line_log import LineLog
from common.signing import SigningKey, VerifyKey

__all__ = ["GENESIS", "Event", "Ledger", "read_ledger", "verify_ledger"]

GENESIS = "0" * 64
"""The `previous` digest of a ledger's first event."""

SCHEMA_VERSION = 1

_KIND = re.compile(r"[A-Za-z0-9_]{1,64}")
_END_OF_TIME = 253_402_300_800
"""The year 10000 in seconds since the epoch."""


@dataclass(frozen=True)
class Event:
    """One signed event.

    Args:
        sequence: position in the ledger, from 0 without gaps.
        time_unix: seconds since the epoch when it was written.
        kind: what happened, for example `release` or `gate`.
        body: the facts of the event; never patient data.
        previous: digest of the event before it, or `GENESIS`.
        signer: the public key that signed it, 64 hex digits.
        signature: Ed25519 over the canonical JSON of all the above, 128 hex digits.
    """

    sequence: int
    time_unix: float
    kind: str
    body: Json
    previous: str
    signer: str
    signature: str

    @property
    def fields(self) -> Mapping[str, Any]:
        """The body where it is an object, as it is in every event of ours; else empty."""
        return self.body if isinstance(self.body, dict) else {}

    def signed_part(self) -> dict[str, Json]:
        """The fields that are signed."""
        return {
            "schema_version": SCHEMA_VERSION,
            "sequence": self.sequence,
            "time_unix": self.time_unix,
            "kind": self.kind,
            "body": self.body,
            "previous": self.previous,
            "signer": self.signer,
        }

    def to_json(self) -> dict[str, Json]:
        """All fields, as they stand on the line."""
        return {**self.signed_part(), "signature": self.signature}

    @property
    def digest(self) -> str:
        """SHA-256 over the whole line; what the next event points at."""
        return digest_json(self.to_json())


class Ledger:
    """Writer of one ledger file, owned by one process at a time; its threads may append side by side.

    A line cut short by a crash was never acknowledged to anyone, so it is removed when the ledger is opened again.

    Args:
        path: the JSON Lines file; made when missing.
        key: the owner's signing key.

    Raises:
        LedgerError: another process holds the file, or the existing lines do not verify.
    """

    def __init__(self, path: Path, key: SigningKey) -> None:
        self.path = path
        self._key = key
        self._lock = threading.Lock()
        self._lines = LineLog(path, "this ledger", mode=0o644)
        events = verify_ledger(path, key.public)
        self._sequence = len(events)
        self.head = events[-1].digest if events else GENESIS

    def append(self, kind: str, body: Json) -> Event:
        """Sign and write one event; it is on disk (fsync) when this returns.

        Raises:
            LedgerError: it cannot be written; the ledger is as it was before.
        """
        with self._lock:
            unsigned = Event(self._sequence, round(time.time(), 3), kind, body, self.head, self._key.public.hex, "")
            event = Event(**{**unsigned.__dict__, "signature": self._key.sign_json(unsigned.signed_part())})
            self._lines.append(_line(event).encode())
            self._sequence += 1
            self.head = event.digest
        return event

    def close(self) -> None:
        """Release the file."""
        self._lines.close()


def _line(event: Event) -> str:
    """The one way an event is written, so that not even white space can be changed unseen."""
    return json.dumps(event.to_json(), sort_keys=True, ensure_ascii=False)


def _well_formed(event: Event) -> bool:
    """Whether the fields have their types, and the kind is a plain word: a foreign ledger may hold anything."""
    words = (event.kind, event.previous, event.signer, event.signature)
    return (
        type(event.sequence) is int
        and type(event.time_unix) in (int, float)
        and 0 <= event.time_unix < _END_OF_TIME
        and all(isinstance(word, str) for word in words)
        and _KIND.fullmatch(event.kind) is not None
    )


def read_ledger(path: Path) -> Iterator[Event]:
    """Parse the lines of a ledger without checking chain or signatures.

    Raises:
        LedgerError: the file is missing, or a line is not an event of this schema version.
    """
    try:
        text = read_regular(path).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise LedgerError("cannot read the ledger", where=str(path)) from error
    lines = text.split("\n")
    if lines[-1] != "":
        raise LedgerError("last event is cut short", where=f"{path}, event {len(lines) - 1}")
    for number, line in enumerate(lines[:-1]):
        try:
            fields = json.loads(line)
            version = fields.pop("schema_version")
            event = Event(**fields)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise LedgerError("not a ledger event", where=f"{path}, event {number}") from error
        if not _well_formed(event):
            raise LedgerError("not a ledger event", where=f"{path}, event {number}")
        if version != SCHEMA_VERSION:
            raise LedgerError(f"ledger schema {version!r} is not known here", where=f"{path}, event {number}")
        if _line(event) != line:
            raise LedgerError("event is not written as it was signed: it was changed", where=f"{path}, event {number}")
        yield event


def verify_ledger(path: Path, signer: VerifyKey, *, expected_head: str | None = None) -> list[Event]:
    """Check every signature and the whole chain.

    Args:
        path: the ledger file.
        signer: the only key whose events are accepted.
        expected_head: a head digest known from elsewhere; it must occur in the chain (finds truncation).

    Returns:
        All events, in order.

    Raises:
        LedgerError: naming the first bad event.
    """
    events: list[Event] = []
    previous = GENESIS
    heads = {GENESIS}
    for number, event in enumerate(read_ledger(path)):
        where = f"{path}, event {number}"
        if event.sequence != number:
            raise LedgerError(f"sequence is {event.sequence}: an event was deleted, added or moved", where=where)
        if event.previous != previous:
            raise LedgerError("chain is broken: an earlier event was changed", where=where)
        if event.signer != signer.hex:
            raise LedgerError("signed by a foreign key", where=where)
        try:
            signer.verify_json(event.signed_part(), event.signature)
        except (SigningError, ValueError, TypeError) as error:
            raise LedgerError("signature does not verify: the event was changed", where=where) from error
        previous = event.digest
        heads.add(previous)
        events.append(event)
    if expected_head is not None and expected_head not in heads:
        raise LedgerError("a co-signed checkpoint is missing: the ledger was truncated or rewritten", where=str(path))
    return events
