"""A folder of the host as a rollout's workspace: its files go in, and what the rollout changed comes back."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from common.errors import SandboxError
from common.files import writing
from common.sandbox.tree import read_tree

__all__ = ["read_folder", "write_back"]


def read_folder(folder: Path, budget: int) -> dict[str, bytes]:
    """Regular files below a folder by relative path; links and devices are left out.

    Args:
        folder: of the host.
        budget: bytes that fit a workspace.

    Raises:
        SandboxError: no such folder, or it holds more.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise SandboxError(f"cannot read the workspace folder: {error.strerror}", where=str(folder)) from error
    try:
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
        if size > budget:
            raise SandboxError(
                f"the folder holds {size} bytes, a workspace {budget}", where=str(folder), remedy="Take less into it."
            )
        return dict(read_tree(descriptor, budget))
    finally:
        os.close(descriptor)


def write_back(folder: Path, changed: Mapping[str, bytes | None]) -> None:
    """Put changed files into a folder of the host, through no link.

    Args:
        folder: of the host.
        changed: relative path to new content, or `None` where the file is gone.

    Raises:
        ConfigurationError: a file cannot be written, or a link stands in its way.
    """
    root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for path, content in changed.items():
            *parents, name = path.split("/")
            with writing("a file of the workspace", folder / path), _inner(root, parents) as parent:
                if content is None:
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(name, dir_fd=parent)
                else:
                    _replace(parent, name, content)
    finally:
        os.close(root)


@contextmanager
def _inner(root: int, parents: list[str]) -> Iterator[int]:
    """Descriptor of a folder below another, made where it is missing."""
    descriptor = os.dup(root)
    try:
        for part in parents:
            with contextlib.suppress(FileExistsError):
                os.mkdir(part, 0o755, dir_fd=descriptor)
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
        yield descriptor
    finally:
        os.close(descriptor)


def _replace(parent: int, name: str, content: bytes) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=parent)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(name, flags, 0o644, dir_fd=parent), "wb") as stream:
        stream.write(content)
