"""What a server's ledger says beyond single files: lines of the metrics, whose the releases are, the sealed result."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from common.canonical import digest_bytes
from common.errors import LedgerError, SigningError
from common.files import read_regular
from common.ledger import Event
from common.messages import Release, verify_message
from common.signing import VerifyKey

__all__ = ["check_metrics", "check_releases", "check_sealed"]


def check_metrics(path: Path, events: Sequence[Event]) -> None:
    """Hold `metrics.jsonl` to the ledger's `metrics` events, line by line.

    A line is written before its event: a run that was cut short may have one more line than events, and half a line.

    Args:
        path: the file.
        events: the whole ledger.

    Raises:
        LedgerError: a line was changed, is missing, or stands in no event.
    """
    recorded = [(event, str(event.fields["line"])) for event in events if event.kind == "metrics"]
    try:
        data = read_regular(path)
    except FileNotFoundError:
        data = b""
    except OSError as error:
        raise LedgerError("the metrics cannot be read", where=str(path)) from error
    lines = data.splitlines(keepends=True)
    for number, (event, digest) in enumerate(recorded):
        where = f"{path}, line {number + 1}; event {event.sequence}, metrics"
        if number >= len(lines):
            raise LedgerError("a line of the metrics is missing", where=where)
        if digest_bytes(lines[number]) != digest:
            raise LedgerError("a line of the metrics was changed", where=where)
    ended = any(event.kind == "run_end" for event in events)
    if len(lines) > len(recorded) + (0 if ended else 1):
        raise LedgerError("a line of the metrics stands in no event", where=f"{path}, line {len(recorded) + 1}")


def check_releases(folder: Path, events: Sequence[Event]) -> None:
    """Check that each release is signed by the site that the run began with, and says what the ledger says of it.

    Args:
        folder: the run directory.
        events: the whole ledger, its first event `run_start`.

    Raises:
        LedgerError: naming the first release that is not its site's own.
    """
    sites = events[0].fields["sites"]
    for event in (one for one in events if one.kind == "release_received"):
        body = event.fields
        site, number = str(body["site"]), body["round"]
        where = f"event {event.sequence}, release_received, site {site}"
        try:
            data = read_regular(folder / "rounds" / str(number) / "releases" / f"{site}.json")
            release = verify_message(data, Release, VerifyKey.from_hex(str(sites[site])))
        except (SigningError, OSError, KeyError) as error:
            raise LedgerError("a release is not signed by its site", where=where) from error
        if (release.site, release.round, release.update) != (site, number, body["digest"]):
            raise LedgerError("a release says something else than the ledger", where=where)


def check_sealed(path: Path, events: Sequence[Event]) -> None:
    """Hold `sealed.json` to the last `sealed` event; a run that was scored again keeps the last result.

    Args:
        path: the file; missing before a run was scored.
        events: the whole ledger.

    Raises:
        LedgerError: it was changed, is missing, or stands in no event.
    """
    recorded = [str(event.fields["sealed"]) for event in events if event.kind == "sealed"]
    try:
        found = [digest_bytes(read_regular(path))]
    except FileNotFoundError:
        found = []
    except OSError as error:
        raise LedgerError("the sealed result cannot be read", where=str(path)) from error
    if found != recorded[-1:]:
        raise LedgerError("the sealed result is not the one that the ledger names", where=str(path))
