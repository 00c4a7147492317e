"""Find every file under a folder once, whatever the nesting, links or loops."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from stage_bank.dicom.reasons import Reason

__all__ = ["Found", "walk"]


@dataclass(frozen=True)
class Found:
    """One entry met.

    Args:
        path: where it is.
        name: path relative to the root with forward slashes; undecodable bytes are shown as escapes.
        reason: why it cannot be opened, or `None` for a regular file.
    """

    path: Path
    name: str
    reason: Reason | None


def walk(root: Path) -> Iterator[Found]:
    """Yield regular files, and by name everything that is none, sorted within each folder.

    Links are followed while they stay under `root`; a folder is entered once, so that a loop ends where it starts.
    Nothing is opened here: a pipe or a device never blocks the ingest.
    """
    top = root.resolve()
    visited = {_identity(top)}
    pending = [top]
    while pending:
        folder = pending.pop()
        try:
            entries = sorted(folder.iterdir(), reverse=True)
        except OSError:
            yield Found(folder, _name(folder, top), Reason.UNREADABLE)
            continue
        folders = []
        for path in reversed(entries):
            kind, reason = _classify(path, top, visited)
            if kind == "folder":
                folders.append(path)
            else:
                yield Found(path, _name(path, top), reason)
        pending.extend(reversed(folders))


def _classify(path: Path, top: Path, visited: set[tuple[int, int]]) -> tuple[str, Reason | None]:
    try:
        status = path.stat()
        if path.is_symlink() and not path.resolve().is_relative_to(top):
            return "file", Reason.OUTSIDE
    except (OSError, RuntimeError):
        return "file", Reason.BROKEN_LINK if path.is_symlink() else Reason.UNREADABLE
    if stat.S_ISDIR(status.st_mode):
        identity = (status.st_dev, status.st_ino)
        if identity in visited:
            return "file", Reason.LOOP
        visited.add(identity)
        return "folder", None
    if not stat.S_ISREG(status.st_mode):
        return "file", Reason.NOT_REGULAR
    return "file", Reason.EMPTY_FILE if status.st_size == 0 else None


def _identity(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino


def _name(path: Path, top: Path) -> str:
    return os.fsencode(path.relative_to(top).as_posix()).decode("utf-8", "backslashreplace")
