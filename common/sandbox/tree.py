"""Read and write a workspace through a descriptor of its folder, trusting nothing that lies in it.

Every path component is opened by itself without following links, so neither a symbolic link nor a renamed folder can
lead outside. What is not a plain regular file with one name (links, FIFOs, devices, sockets) does not count, nor do
names that are not UTF-8, folders nested deeper than `DEPTH`, paths longer than `PATH_BYTES`, and in sorted order
whatever exceeds `FILES` or the byte budget.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import stat
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from common.canonical import digest_bytes
from common.errors import SandboxError

__all__ = [
    "DEPTH",
    "FILES",
    "PATH_BYTES",
    "as_user",
    "digest_tree",
    "read_tree",
    "remove_tree",
    "used_bytes",
    "write_tree",
]

DEPTH = 16
"""Deepest folder that is looked into."""
FILES = 4096
"""Most files that count."""
PATH_BYTES = 512
"""Longest path that counts."""

_libc = ctypes.CDLL(None)
_BLOCK = 1 << 20


@contextmanager
def as_user(uid: int | None) -> Iterator[None]:
    """Let this thread, and no other, touch files as `uid` (setfsuid(2)); `None` changes nothing."""
    if uid is None:
        yield
        return
    _libc.setfsgid(uid)
    _libc.setfsuid(uid)
    try:
        yield
    finally:
        _libc.setfsuid(os.geteuid())
        _libc.setfsgid(os.getegid())


def write_tree(folder: int, files: Mapping[str, bytes]) -> None:
    """Write `files` (relative path to content) below the folder with this descriptor.

    Raises:
        SandboxError: a path is absolute, leads upwards or is malformed, or the files do not fit.
    """
    made: set[str] = set()
    for path, content in files.items():
        parts = path.split("/")
        if not all(part not in ("", ".", "..") and "\0" not in part for part in parts) or len(parts) > DEPTH:
            raise SandboxError("not a relative workspace path", where=path[:80])
        try:
            for depth in range(1, len(parts)):
                parent = "/".join(parts[:depth])
                if parent not in made:
                    os.mkdir(parent, 0o755, dir_fd=folder)
                    made.add(parent)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(path, flags, 0o644, dir_fd=folder)
            with open(descriptor, "wb", buffering=0) as stream:
                view = memoryview(content)
                while view:
                    view = view[stream.write(view) :]
        except OSError as error:
            raise SandboxError(f"cannot write a workspace file: {error.strerror}", where=path[:80]) from error


def read_tree(folder: int, budget: int) -> Iterator[tuple[str, bytes]]:
    """Yield path and content of every regular file below the folder, in sorted order.

    Args:
        folder: descriptor of the workspace folder.
        budget: bytes that may be read in all (a sparse file costs its apparent size).
    """
    yield from _Reader(budget).read(folder, "", 0)


class _Reader:
    def __init__(self, budget: int) -> None:
        self._bytes_left = budget
        self._files_left = FILES

    def read(self, folder: int, prefix: str, depth: int) -> Iterator[tuple[str, bytes]]:
        with os.scandir(folder) as entries:
            ordered = sorted(entries, key=lambda entry: entry.name)
        for entry in ordered:
            path = prefix + entry.name
            if self._files_left == 0:
                return
            if not _is_utf8(path) or len(path) > PATH_BYTES:
                continue
            if _is_folder(entry):
                inner = _open(entry.name, os.O_DIRECTORY, folder) if depth < DEPTH else None
                if inner is not None:
                    try:
                        yield from self.read(inner, f"{path}/", depth + 1)
                    finally:
                        os.close(inner)
                continue
            content = _content(entry.name, folder, self._bytes_left)
            if content is not None:
                self._bytes_left -= len(content)
                self._files_left -= 1
                yield path, content


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _open(name: str, flags: int, folder: int) -> int | None:
    common = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
    try:
        return os.open(name, common | flags, dir_fd=folder)
    except OSError:
        return None


def _content(name: str, folder: int, budget: int) -> bytes | None:
    """Content of a regular file with exactly one name, if it fits the budget."""
    descriptor = _open(name, 0, folder)
    if descriptor is None:
        return None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1 or status.st_size > budget:
            return None
        blocks = []
        left = status.st_size
        while left > 0 and (block := os.read(descriptor, min(left, _BLOCK))):
            blocks.append(block)
            left -= len(block)
        return b"".join(blocks)
    finally:
        os.close(descriptor)


def digest_tree(folder: int, budget: int) -> dict[str, str]:
    """Path to SHA-256 of every file that `read_tree` yields.

    Contents are read every time: a file written through a shared mapping keeps its times on tmpfs, so no cache by
    times would be safe.
    """
    return {path: digest_bytes(content) for path, content in read_tree(folder, budget)}


def used_bytes(folder: Path) -> int:
    """Bytes that everything below a folder occupies while programs may be changing it.

    Only counts, so it may be misled into counting something else; what it cannot look into (a path longer than the
    kernel takes) counts as endless.
    """
    total, waiting = 0, [str(folder)]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    total += entry.stat(follow_symlinks=False).st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            continue
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                return 1 << 62
            raise
    return total


def remove_tree(folder: Path) -> None:
    """Remove a folder however deep a hostile program nested it."""
    try:
        shutil.rmtree(folder, ignore_errors=True)
    except RecursionError:
        subprocess.run(["/bin/rm", "-rf", "--", str(folder)], check=False, env={}, stderr=subprocess.DEVNULL)
