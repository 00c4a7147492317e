"""A file of lines that one process appends to, each on disk before the writer goes on."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

from common.errors import LedgerError

__all__ = ["LineLog"]


class LineLog:
    """The file, held by this process. A last line that a crash cut short is dropped: it was never acknowledged.

    Args:
        path: made with its folders when missing.
        what: it is, for messages.
        mode: permission bits of a new file, before the umask.

    Raises:
        LedgerError: another process holds the file, or it cannot be opened.
    """

    def __init__(self, path: Path, what: str, *, mode: int) -> None:
        self.path = path
        self._what = what
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            self._stream = os.fdopen(os.open(path, flags, mode), "a+b", buffering=0)
        except OSError as error:
            raise LedgerError(f"cannot open {what}: {error.strerror}", where=str(path)) from error
        try:
            fcntl.flock(self._stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._stream.close()
            raise LedgerError(f"another process writes {what}", where=str(path)) from error
        try:
            self._settle()
        except OSError as error:
            self._stream.close()
            raise LedgerError(f"cannot read {what}: {error.strerror}", where=str(path)) from error

    def _settle(self) -> None:
        """Drop an unfinished line, and make sure that the file's name is on disk."""
        self._stream.seek(0)
        data = self._stream.readall()
        if data and not data.endswith(b"\n"):
            self._stream.truncate(data.rfind(b"\n") + 1)
        folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def append(self, line: bytes) -> None:
        """Write a line, given without its end; it is on disk (fsync) when this returns.

        Raises:
            LedgerError: it cannot be written; the file is as it was before.
        """
        size = os.fstat(self._stream.fileno()).st_size
        try:
            if self._stream.write(line + b"\n") != len(line) + 1:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(self._stream.fileno())
        except OSError as error:
            # Half a line would spoil every line after it.
            self._stream.truncate(size)
            raise LedgerError(
                f"cannot write {self._what}: {error.strerror}", where=str(self.path), remedy="Free disk space."
            ) from error

    def close(self) -> None:
        """Let another process write."""
        self._stream.close()
