"""Checking a run directory or a site's state folder against its signed ledger, with nothing but the folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from common.adapter import adapter_digest
from common.canonical import digest_bytes
from common.errors import LedgerError, SigningError
from common.files import read_regular
from common.ledger import GENESIS, Event, read_ledger, verify_ledger
from common.run_record import check_metrics, check_releases, check_sealed
from common.signing import VerifyKey

__all__ = ["LEDGER_FILE", "verify_folder"]

LEDGER_FILE = "ledger.jsonl"

SITE_KINDS = frozenset({"daemon_started", "prescription_accepted", "prescription_refused", "release", "bank_snapshot"})
SERVER_KINDS = frozenset({"run_start", "prescription", "release_received", "aggregate", "gate", "metrics", "run_end"})
"""Events that only one side writes."""


def verify_folder(folder: Path, key: VerifyKey | None = None, head: str | None = None) -> str:
    """Check a run directory or a site's state folder.

    Args:
        folder: holds `ledger.jsonl`.
        key: the key that must have signed it; when not given, the one that signed the first event, which proves that
            the record is whole but not whose it is.
        head: a head digest that must occur.

    Returns:
        One line that says what was checked.

    Raises:
        LedgerError: naming the first thing that does not hold.
    """
    path = folder / LEDGER_FILE
    signer = key or _first_signer(path)
    _check_public_key(folder / "server.pub", signer)
    events = verify_ledger(path, signer, expected_head=head)
    kind = _whose_record(folder, events)
    files = _run_files if kind == "server" else _site_files
    checked = sum(_check_file(folder, *named) for event in events for named in _named(files, folder, event))
    if kind == "server":
        try:
            check_releases(folder, events)
            check_metrics(folder / "metrics.jsonl", events)
            check_sealed(folder / "sealed.json", events)
        except (KeyError, TypeError, AttributeError) as error:
            raise LedgerError(f"an event names no {error}", where=str(path)) from error
    counts = ", ".join(f"{number} {name}" for name, number in sorted(Counter(e.kind for e in events).items()))
    last = events[-1].digest if events else GENESIS
    whose = "as expected" if key else "not pinned"
    return (
        f"{kind} ledger holds: {len(events)} events ({counts}), {checked} files match, "
        f"signed by {signer.hex} ({whose}), head {last}"
    )


def _whose_record(folder: Path, events: Sequence[Event]) -> str:
    """A run's ledger begins with `run_start`; a site's holds no event of a run, nor lies in a run directory."""
    kinds = [event.kind for event in events]
    if kinds[:1] == ["run_start"]:
        if mixed := sorted(SITE_KINDS.intersection(kinds)):
            raise LedgerError(f"a run's ledger holds events of a site: {mixed[0]}", where=str(folder))
        return "server"
    if SERVER_KINDS.intersection(kinds) or (folder / "rounds").exists() or (folder / "server.pub").exists():
        raise LedgerError("the ledger is not that of a run: it does not begin with run_start", where=str(folder))
    return "site"


def _first_signer(path: Path) -> VerifyKey:
    for event in read_ledger(path):
        return VerifyKey.from_hex(event.signer)
    raise LedgerError("the ledger has no events", where=str(path))


Named = tuple[Path, str, Callable[[bytes], str], str]
"""A file, the digest it must have, how to take it, and the event that says so."""


def _run_files(folder: Path, event: Event) -> list[Named]:
    body = event.fields
    where = f"event {event.sequence}, {event.kind}"
    rounds = folder / "rounds" / str(body.get("round"))
    if event.kind == "release_received":
        return [(rounds / "releases" / f"{body['site']}.json", str(body["release"]), digest_bytes, where)]
    if event.kind == "aggregate":
        return [(rounds / "candidate.safetensors", str(body["candidate"]), adapter_digest, where)]
    if event.kind in ("evaluation", "gate"):
        files = body["files"].items()
        return [(rounds / f"{name}.json", str(digest), digest_bytes, where) for name, digest in files]
    if event.kind == "run_end":
        return [(folder / "adapter.safetensors", str(body["adapter"]), adapter_digest, where)]
    if event.kind == "run_start":
        return [(folder / "config.toml", str(body["settings"]), digest_bytes, where)]
    return []


def _site_files(folder: Path, event: Event) -> list[Named]:
    if event.kind != "release":
        return []
    body = event.fields
    release = folder / "releases" / str(body["run"]) / str(body["round"])
    where = f"event {event.sequence}, release"
    return [
        (release / "release.json", str(body["message"]), digest_bytes, where),
        (release / "update.safetensors", str(body["update"]), digest_bytes, where),
    ]


def _check_public_key(path: Path, signer: VerifyKey) -> None:
    """The key that a run directory names must be the one that signed its ledger."""
    try:
        named = VerifyKey.from_hex(read_regular(path).decode("ascii", "replace"))
    except FileNotFoundError:
        return
    except (OSError, SigningError) as error:
        raise LedgerError("the run's public key cannot be read", where=str(path)) from error
    if named != signer:
        raise LedgerError("the ledger is signed by another key than the run's own", where=str(path))


def _named(files: Callable[[Path, Event], list[Named]], folder: Path, event: Event) -> list[Named]:
    try:
        return files(folder, event)
    except (KeyError, TypeError, AttributeError) as error:
        raise LedgerError(f"event names no {error}", where=f"event {event.sequence}, {event.kind}") from error


def _inside(path: Path, folder: Path) -> bool:
    return (
        path.is_relative_to(folder)
        and ".." not in path.relative_to(folder).parts
        and path.resolve().is_relative_to(folder.resolve())
    )


def _check_file(folder: Path, path: Path, digest: str, take: Callable[[bytes], str], where: str) -> bool:
    """Only what lies in the folder counts: names come from the ledger, and whoever made the folder made that too."""
    try:
        if not _inside(path, folder):
            raise LedgerError("a recorded file lies outside the folder", where=f"{path}, {where}")
        data = read_regular(path)
    except (OSError, ValueError, RuntimeError) as error:
        raise LedgerError("a recorded file is missing", where=f"{path}, {where}") from error
    if take(data) != digest:
        raise LedgerError("a recorded file was changed", where=f"{path}, {where}")
    return True
