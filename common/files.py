"""Writing files: whole or not at all, and one clear line where it cannot be done."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from common.errors import ConfigurationError

__all__ = ["write_durably", "writing"]


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
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
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
