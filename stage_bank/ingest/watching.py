"""Waiting until a folder is quiet, by polling: network shares give no events."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from stage_bank.dicom.walk import walk

__all__ = ["quiet_states"]

Listing = tuple[tuple[str, int, int], ...]


def listing(folder: Path) -> Listing:
    """Name, size and time of change of every file; files that vanish meanwhile are left out."""
    found = []
    for entry in walk(folder):
        try:
            status = entry.path.stat()
        except OSError:
            continue
        found.append((entry.name, status.st_size, status.st_mtime_ns))
    return tuple(found)


def quiet_states(
    folder: Path,
    interval: float,
    quiet_for: float,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Listing]:
    """Yield whenever the folder has changed and then stayed the same for a while; never ends by itself.

    Only names, sizes and times are read, and nothing is written: a read-only share will do. A folder that is away for
    a while, like a share that lost its server, counts as empty.

    Args:
        folder: what to look at.
        interval: seconds between two looks.
        quiet_for: seconds without a change.
        clock: seconds.
        sleep: waits that many seconds.
    """
    handled: Listing = ()
    last, since = listing(folder) if folder.is_dir() else (), clock()
    while True:
        if last and last != handled and clock() - since >= quiet_for:
            handled = last
            yield last
        sleep(interval)
        now = listing(folder) if folder.is_dir() else ()
        if now != last:
            last, since = now, clock()
