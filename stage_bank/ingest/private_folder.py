"""A folder for what must not outlive its process: removed at the end, and after a kill by the next one that starts."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["private_folder"]

_PREFIX = "bat-ingest-"


@contextmanager
def private_folder() -> Iterator[Path]:
    """A new folder of mode 0700 in the system's temporary folder, until the block ends.

    Its process holds a lock on it. A folder of the same user that nobody holds belongs to a killed process: it may keep
    identified images, so it is removed first.
    """
    _sweep()
    folder, lock = _make()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _make() -> tuple[Path, int]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        lock = _try_lock(folder)
        if lock is not None and folder.exists():
            return folder, lock
        if lock is not None:  # swept between the two lines above
            os.close(lock)


def _sweep() -> None:
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        lock = _try_lock(folder)
        if lock is not None:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)


def _try_lock(folder: Path) -> int | None:
    """A descriptor that holds the folder, or None where another process does or it is not this user's folder."""
    lock = None
    with suppress(OSError):
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        owner = os.fstat(lock)
        if owner.st_uid == os.geteuid() and stat.S_IMODE(owner.st_mode) == 0o700:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return lock
    if lock is not None:
        os.close(lock)
    return None
