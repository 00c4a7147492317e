"""Reading a run directory that may be hostile: plain files only, through no link, within a budget."""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from common.errors import DataError
from common.sandbox.tree import read_tree

__all__ = ["OUTPUTS", "CaseFiles", "InvalidOutput", "inflate", "links_below", "read_cases", "read_plain"]

OUTPUTS = "agents_outputs"
"""Folder of a run with one folder a case."""

CASE_BYTES = 512 << 20
"""Most bytes read of a case, and most that one of its files may inflate to."""

LINKS = 10_000
"""Most entries of a run that are looked at for links."""


class InvalidOutput(ValueError):
    """An output that is there but cannot be scored; the text says why."""


@dataclass(frozen=True)
class CaseFiles:
    """One case.

    Args:
        output: file name to content of what the agent left; empty where it left nothing.
        reference: file name to content of the truth.
    """

    output: Mapping[str, bytes]
    reference: Mapping[str, bytes]


def read_cases(run: Path, reference: Path) -> dict[str, CaseFiles]:
    """All cases of the reference with what the run has of them, in the order of their names.

    Raises:
        DataError: the reference folder is missing, or has no case.
    """
    try:
        names = sorted(path.name for path in reference.iterdir() if path.is_dir() and not path.name.startswith("."))
    except OSError as error:
        raise DataError(f"cannot read the reference: {error.strerror}", where=str(reference)) from error
    if not names:
        raise DataError(
            "the reference has no case", where=str(reference), remedy="Give a folder with one folder for each case."
        )
    return {name: CaseFiles(_of_agent(run, name), _of_reference(reference / name)) for name in names}


def _of_reference(folder: Path) -> dict[str, bytes]:
    try:
        return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}
    except OSError as error:
        raise DataError(f"cannot read the reference: {error.strerror}", where=str(error.filename or folder)) from error


def _of_agent(run: Path, case: str) -> dict[str, bytes]:
    """Plain files of a case; a folder or file that is a link is not there."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    opened: list[int] = []
    try:
        opened.append(os.open(run, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        for part in (OUTPUTS, case):
            opened.append(os.open(part, flags, dir_fd=opened[-1]))
        return dict(read_tree(opened[-1], CASE_BYTES))
    except OSError:
        return {}
    finally:
        for descriptor in opened:
            os.close(descriptor)


def read_plain(path: Path, most: int) -> bytes | None:
    """A plain file of a run, at most so many bytes of it; `None` where there is none."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    with open(descriptor, "rb") as stream:
        try:
            return stream.read(most)
        except OSError:
            return None


def links_below(run: Path) -> list[str]:
    """Links in a run directory that lead out of it, by relative path."""
    root, found = run.resolve(), []
    for number, path in enumerate(run.rglob("*")):
        if number >= LINKS:
            break
        if path.is_symlink() and not path.resolve().is_relative_to(root):
            found.append(str(path.relative_to(run)))
    return sorted(found)


def inflate(data: bytes) -> bytes:
    """A gzip file's content, or the bytes as they are.

    Raises:
        InvalidOutput: damaged, cut short, or larger than any case needs.
    """
    if not data.startswith(b"\x1f\x8b"):
        return data
    unpacker = zlib.decompressobj(wbits=31)
    try:
        plain = unpacker.decompress(data, CASE_BYTES)
    except zlib.error as error:
        raise InvalidOutput("not a whole gzip file") from error
    if not unpacker.eof:
        raise InvalidOutput("cut short, or larger than any case needs")
    return plain
