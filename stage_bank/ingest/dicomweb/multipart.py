"""The one part of a multipart answer, copied as it comes: no more than a few chunks are ever in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import IO

__all__ = ["Cut", "TooLong", "copy_part"]

_MAX_HEADER = 64 << 10


class Cut(Exception):
    """The answer ended early, or is not of the form that it should have."""


class TooLong(Exception):
    """The part is longer than allowed."""


def copy_part(chunks: Iterable[bytes], boundary: bytes, target: IO[bytes], limit: int) -> int:
    """Write the only part of a `multipart/related` body (RFC 2046) to `target`.

    Args:
        chunks: the body in pieces of any size.
        boundary: as the answer's header names it.
        target: opened for writing.
        limit: bytes the part may have.

    Returns:
        Bytes written.

    Raises:
        Cut: no closing boundary, or another number of parts than one.
        TooLong: more than `limit` bytes.
    """
    source = iter(chunks)
    opening = b"\r\n--" + boundary
    buffer, at = _until(opening, b"\r\n", source)  # so that the first line matches, too
    buffer, at = _until(b"\r\n\r\n", buffer[at + len(opening) :], source)
    buffer = buffer[at + 4 :]
    written = 0
    while (at := buffer.find(opening)) < 0:
        keep = len(opening) - 1
        written += _write(buffer[:-keep] if len(buffer) > keep else b"", target, limit - written)
        chunk = next(source, None)
        if chunk is None:
            raise Cut
        buffer = buffer[-keep:] + chunk
    written += _write(buffer[:at], target, limit - written)
    rest = buffer[at + len(opening) :]
    while len(rest) < 2:
        chunk = next(source, None)
        if chunk is None:
            raise Cut
        rest += chunk
    if rest[:2] != b"--":
        raise Cut
    return written


def _until(wanted: bytes, buffer: bytes, source: Iterator[bytes]) -> tuple[bytes, int]:
    """Read on until `wanted` is in the buffer; the buffer and where."""
    while (at := buffer.find(wanted)) < 0:
        chunk = next(source, None)
        if chunk is None or len(buffer) > _MAX_HEADER:
            raise Cut
        buffer += chunk
    return buffer, at


def _write(data: bytes, target: IO[bytes], room: int) -> int:
    if len(data) > room:
        raise TooLong
    target.write(data)
    return len(data)
