"""Landlock rule sets through raw system calls (Documentation/userspace-api/landlock.rst of the kernel)."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable

from .linux import call, prctl

__all__ = ["abi", "restrict", "scope_signals"]

_CREATE, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION_FLAG, _RULE_PATH_BENEATH = 1, 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_MAKE_SYMLINK_AND_FILES = 0x10 | 0x20 | 0x80 | 0x100 | 0x200 | 0x400 | 0x1000
"""Remove directory and file; make directory, regular file, socket, FIFO and symbolic link (no devices)."""
_REFER, _TRUNCATE, _IOCTL_DEVICE = 0x2000, 0x4000, 0x8000
_ALL_OF_ABI = {1: 0x1FFF, 2: 0x3FFF, 3: 0x7FFF, 4: 0x7FFF, 5: 0xFFFF}
_NETWORK_TCP, _SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS = 3, 3
_PR_SET_NO_NEW_PRIVS = 38
_READ_ONLY = _EXECUTE | _READ_FILE | _READ_DIR
_FILE_ONLY = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEVICE


class _RulesetAttributes(ctypes.Structure):
    _fields_ = (("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def abi() -> int:
    """Version of Landlock in the running kernel; 0 where there is none."""
    try:
        return call(_CREATE, None, 0, _VERSION_FLAG)
    except OSError:
        return 0


def _add(ruleset: int, path: str, allowed: int) -> None:
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not os.path.isdir(f"{path}/."):
            allowed &= _FILE_ONLY
        rule = _PathBeneath(allowed, descriptor)
        call(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, ctypes.byref(rule), 0)
    finally:
        os.close(descriptor)


def restrict(version: int, readable: Iterable[str], writable: Iterable[str], devices: Iterable[str] = ()) -> None:
    """Confine the calling process and its future children for good.

    Args:
        version: what `abi` said, at least 1.
        readable: files and folders that may be read and executed.
        writable: folders that may be changed as well.
        devices: character devices that may be read and written.

    Raises:
        OSError: the kernel refused; nothing may be run then.
    """
    everything = _ALL_OF_ABI[min(version, 5)]
    attributes = _RulesetAttributes(
        everything, _NETWORK_TCP if version >= 4 else 0, _SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS if version >= 6 else 0
    )
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    prctl(_PR_SET_NO_NEW_PRIVS, 1)
    ruleset = call(_CREATE, ctypes.byref(attributes), size, 0)
    try:
        for path in readable:
            _add(ruleset, path, _READ_ONLY & everything)
        for path in writable:
            _add(ruleset, path, (_READ_ONLY | _WRITE_FILE | _MAKE_SYMLINK_AND_FILES | _REFER | _TRUNCATE) & everything)
        for path in devices:
            _add(ruleset, path, (_READ_FILE | _WRITE_FILE) & everything)
        call(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def scope_signals() -> None:
    """Enter a domain of one's own that restricts nothing but signals to processes outside it (ABI 6 and later)."""
    prctl(_PR_SET_NO_NEW_PRIVS, 1)
    ruleset = call(_CREATE, ctypes.byref(_RulesetAttributes(0, 0, 2)), 24, 0)
    try:
        call(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)
