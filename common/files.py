"""Writing files: whole or not at all, and one clear line where it cannot be done."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from common.errors import ConfigurationError

__all__ = ["read_regular", "write_durably", "writing"]


def write_durably(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Put a file in place, flushed to the disk with its folder entry; a crash leaves the old or the new content.

    Args:
        path: where; its folder exists.
        data: the whole content.
        mode: permission bits of a new file, before the umask.

    Raises:
        OSError: the disk is full or not writable; no partial file stays.
    """
    partial = path.with_name(path.name + ".partial")
    try:
        # Made anew: a link or a file of other rights that lies there already must not receive the content.
        partial.unlink(missing_ok=True)
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def read_regular(path: Path) -> bytes:
    """The content of a regular file; a pipe or device in a folder from elsewhere must not hold the reader up.

    Raises:
        OSError: missing, not readable, or not a regular file.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "Not a regular file", str(path))
        return stream.read()


@contextmanager
def writing(what: str, where: Path) -> Iterator[None]:
    """Turn a disk that is full or not writable into an error that a person can act on.

    Args:
        what: is written, for the message.
        where: the file or folder that the user named.

    Raises:
        ConfigurationError: the block met an `OSError`.
    """
    try:
        yield
    except OSError as error:
        raise ConfigurationError(
            f"cannot write {what}", where=str(error.filename or where), remedy=f"{error.strerror or error}."
        ) from error
