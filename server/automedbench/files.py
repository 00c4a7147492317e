"""Reading a run directory that may be hostile: plain files only, through no link, within a budget."""

from __future__ import annotations

import os
import re
import stat
import zlib
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from common.errors import DataError
from common.sandbox.tree import DEPTH, read_tree

__all__ = [
    "CASE_BYTES",
    "OUTPUTS",
    "CaseFiles",
    "InvalidOutput",
    "inflate",
    "links_below",
    "names_folder",
    "read_cases",
    "read_plain",
]

OUTPUTS = "agents_outputs"
"""Folder of a run with one folder a case."""

CASE_BYTES = 512 << 20
"""Most bytes read of a case, and most that one of its files may inflate to."""

ENTRIES = 10_000
"""Most entries of a run that are looked at for links, those nearest to its root first. Links are followed nowhere, so
one beyond them gives nothing either."""


_RELATIVE = re.compile(r"(?<![\w./-])\.{1,2}/[\w./-]{1,400}|(?<![\w./-])/[\w./-]{1,400}")


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
    try:
        with _folder(run, (OUTPUTS, case)) as folder:
            return dict(read_tree(folder, CASE_BYTES))
    except OSError:
        return {}


@contextmanager
def _folder(run: Path, parts: tuple[str, ...]) -> Iterator[int]:
    """Descriptor of a folder of a run, each part opened by itself and through no link."""
    opened = [os.open(run, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)]
    try:
        for part in parts:
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            opened.append(os.open(part, flags, dir_fd=opened[-1]))
        yield opened[-1]
    finally:
        for descriptor in opened:
            os.close(descriptor)


def read_plain(run: Path, path: str, most: int) -> bytes | None:
    """A plain file of a run, at most so many bytes of it; `None` where there is none.

    Args:
        run: folder of the run.
        path: relative to it, parts divided by slashes.
        most: bytes.
    """
    *parts, name = path.split("/")
    try:
        with _folder(run, tuple(parts)) as folder:
            descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        with open(descriptor, "rb", closefd=False) as stream:
            return stream.read(most)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def links_below(run: Path) -> list[str]:
    """Links in a run directory that lead out of it, by relative path."""
    root, found = os.path.realpath(run), []
    waiting, looked = deque([""]), 0
    while waiting and looked < ENTRIES:
        folder = waiting.popleft()
        for name, is_link, is_folder in _entries(os.path.join(root, folder)):
            path = os.path.join(folder, name)
            looked += 1
            if is_link and not Path(os.path.realpath(os.path.join(root, path))).is_relative_to(root):
                found.append(path)
            elif is_folder and path.count("/") < DEPTH:
                waiting.append(path)
    return sorted(found)


def _entries(folder: str) -> list[tuple[str, bool, bool]]:
    """Name, whether a link, and whether a folder, of at most `ENTRIES` entries."""
    try:
        with os.scandir(folder) as entries:
            some = list(islice(entries, ENTRIES))
            return [(entry.name, entry.is_symlink(), entry.is_dir(follow_symlinks=False)) for entry in some]
    except OSError:
        return []


def names_folder(code: str, run: Path, folder: Path) -> bool:
    """Whether code spells a path to a folder, or below it: absolute, or relative to the run or a folder of the run.

    A folder that holds the run itself is never named in that sense.
    """
    root, wanted = os.path.realpath(run), os.path.realpath(folder)
    if Path(root).is_relative_to(wanted):
        return False
    if wanted in code:
        return True
    starts = [os.path.join(root, *parts) for parts in ((), ("a",), ("a", "b"))]
    spelled = {match.group() for match in _RELATIVE.finditer(code)}
    return any(
        Path(os.path.normpath(os.path.join(start, path))).is_relative_to(wanted) for path in spelled for start in starts
    )


def inflate(data: bytes, most: int = CASE_BYTES) -> bytes:
    """A gzip file's content, or the bytes as they are.

    Args:
        data: gzip or not.
        most: bytes that the content may have.

    Raises:
        InvalidOutput: damaged, cut short, or larger than that.
    """
    if not data.startswith(b"\x1f\x8b"):
        return data
    unpacker = zlib.decompressobj(wbits=31)
    try:
        plain = unpacker.decompress(data, most)
    except zlib.error as error:
        raise InvalidOutput("not a whole gzip file") from error
    if not unpacker.eof:
        raise InvalidOutput("cut short, or larger than any case needs")
    return plain
