"""The few Linux calls that Python 3.11 does not offer, through ctypes; every failure raises `OSError`.

Numbers are those of the kernel's uapi headers for x86-64 and arm64.
"""

from __future__ import annotations

import ctypes
import os
import platform

__all__ = [
    "CLONE_NEWNS",
    "CLONE_NEWPID",
    "CLONE_NEWUSER",
    "MNT_DETACH",
    "MS_NODEV",
    "MS_NOEXEC",
    "MS_NOSUID",
    "MS_PRIVATE",
    "MS_RDONLY",
    "MS_REC",
    "MS_REMOUNT",
    "call",
    "collapse_huge_pages",
    "drop_capabilities",
    "fork_into",
    "machine",
    "mount",
    "prctl",
    "setns",
    "unshare",
]

CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWPID = 0x00020000, 0x10000000, 0x20000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_REC, MS_PRIVATE = 1, 2, 4, 8, 32, 0x4000, 0x40000
MNT_DETACH = 2
_SIGCHLD = 17
_PR_CAPBSET_DROP, _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 24, 47, 4
_CAPABILITY_VERSION_3 = 0x20080522
_MADV_HUGEPAGE, _MADV_COLLAPSE = 14, 25
_HUGE_PAGE = 2 << 20

_libc = ctypes.CDLL(None, use_errno=True)
_libc_with_gil = ctypes.PyDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
_libc_with_gil.syscall.restype = ctypes.c_long
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]

_CLONE = {"x86_64": 56, "aarch64": 220}
_CAPSET = {"x86_64": 126, "aarch64": 91}


def machine() -> str:
    """The kernel's name of this processor, `x86_64` or `aarch64`.

    Raises:
        OSError: another one, for which the system-call filter has no table.
    """
    name = platform.machine()
    if name not in _CLONE:
        raise OSError(f"no system-call table for {name}")
    return name


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def call(number: int, *arguments: object) -> int:
    """A raw system call with integer, bytes or ctypes arguments."""
    wide = [ctypes.c_long(argument) if isinstance(argument, int) else argument for argument in arguments]
    return _checked(_libc.syscall(ctypes.c_long(number), *wide), f"system call {number}")


def prctl(option: int, *arguments: object) -> int:
    """prctl(2), missing arguments as zeros."""
    wide = [ctypes.c_ulong(argument) if isinstance(argument, int) else argument for argument in arguments]
    return _checked(_libc.prctl(option, *wide, *[ctypes.c_ulong(0)] * (4 - len(wide))), f"prctl {option}")


def unshare(flags: int) -> None:
    """unshare(2)."""
    _checked(_libc.unshare(flags), "unshare")


def setns(descriptor: int, kind: int) -> None:
    """setns(2)."""
    _checked(_libc.setns(descriptor, kind), "setns")


def mount(source: str, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    """mount(2)."""
    encode = [None if text is None else os.fsencode(text) for text in (source, target, kind, options)]
    result = _libc.mount(encode[0], encode[1], encode[2], ctypes.c_ulong(flags), encode[3])
    _checked(result, f"mount {target}")


def fork_into(flags: int) -> int:
    """Fork into new namespaces; the child's process id, or 0 in the child.

    `os.fork` cannot pass flags and `unshare(CLONE_NEWPID)` works only once a process, hence the raw call with the
    interpreter's own hooks around it. Only for a process with one thread.
    """
    ctypes.pythonapi.PyOS_BeforeFork()
    pid = _libc_with_gil.syscall(
        ctypes.c_long(_CLONE[machine()]), ctypes.c_long(flags | _SIGCHLD), *[ctypes.c_long(0)] * 4
    )
    if pid == 0:
        ctypes.pythonapi.PyOS_AfterFork_Child()
        return 0
    ctypes.pythonapi.PyOS_AfterFork_Parent()
    return _checked(pid, "clone")


def drop_capabilities() -> None:
    """Give up every capability of every set, for good."""
    for capability in range(64):
        if _libc.prctl(_PR_CAPBSET_DROP, ctypes.c_ulong(capability), *[ctypes.c_ulong(0)] * 3) < 0:
            break
    prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    call(_CAPSET[machine()], header, (ctypes.c_uint32 * 6)())


def collapse_huge_pages() -> None:
    """Back the interpreter's anonymous memory with huge pages, so that a fork copies far fewer entries.

    Only a matter of speed, so a kernel that declines (before 6.1, or pages disabled) changes nothing else.
    """
    with open("/proc/self/maps", encoding="utf-8") as maps:
        lines = maps.read().splitlines()
    for fields in map(str.split, lines):
        if fields[1] != "rw-p" or (len(fields) > 5 and fields[5] != "[heap]"):
            continue
        low, high = (int(text, 16) for text in fields[0].split("-"))
        first, last = -(-low // _HUGE_PAGE) * _HUGE_PAGE, high // _HUGE_PAGE * _HUGE_PAGE
        for address in range(first, last, _HUGE_PAGE):
            if _libc.madvise(address, _HUGE_PAGE, _MADV_HUGEPAGE) == 0:
                _libc.madvise(address, _HUGE_PAGE, _MADV_COLLAPSE)
