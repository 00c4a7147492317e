"""What a child gives up before it runs agent code; the two backends differ only here."""

from __future__ import annotations

import os
import resource
import signal
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from . import landlock
from .linux import (
    CLONE_NEWNS,
    CLONE_NEWUSER,
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    MS_RDONLY,
    drop_capabilities,
    mount,
    prctl,
    setns,
    unshare,
)
from .seccomp import install_filter

__all__ = ["Rules", "enter_landlock", "enter_namespaces", "make_view", "use_output"]

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 1, 4, 38
_INODES = 4096
_OPEN_FILES = 256
_QUEUED_SIGNALS = 1024


@dataclass(frozen=True)
class Rules:
    """What holds for every execution of one server.

    Args:
        program: the system-call filter.
        readable: Landlock backend only: what agent code may read besides its workspace.
        landlock_abi: Landlock backend only: version of the kernel's interface.
    """

    program: bytes
    readable: tuple[str, ...] = ()
    landlock_abi: int = 0


def make_view(workspace_bytes: int) -> tuple[int, int]:
    """Make one rollout's mount namespace: a sized workspace and a private /tmp over the server's read-only root.

    The server itself returns to its own namespace, so neither it nor any other rollout sees the new mounts; they live
    as long as someone holds the returned descriptors.

    Returns:
        Descriptors of the mount namespace and of the workspace folder.
    """
    home = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    try:
        unshare(CLONE_NEWNS)
        try:
            options = f"size={workspace_bytes},nr_inodes={_INODES},mode=0700"
            for path in ("/workspace", "/tmp"):
                mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV, options)
            view = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
            folder = os.open("/workspace", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        finally:
            setns(home, CLONE_NEWNS)
    finally:
        os.close(home)
    return view, folder


def _set_limits(limits: Mapping[str, Any]) -> None:
    """Resource limits of the calling process and its future children."""
    for kind, value in (
        (resource.RLIMIT_AS, limits["memory_bytes"]),
        (resource.RLIMIT_CPU, limits["cpu_s"]),
        (resource.RLIMIT_NPROC, limits["processes"]),
        (resource.RLIMIT_FSIZE, limits["workspace_bytes"]),
        (resource.RLIMIT_NOFILE, _OPEN_FILES),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_MEMLOCK, 0),
        (resource.RLIMIT_MSGQUEUE, 0),
        (resource.RLIMIT_SIGPENDING, _QUEUED_SIGNALS),
    ):
        resource.setrlimit(kind, (value, value))


def enter_namespaces(view: int, limits: Mapping[str, Any], rules: Rules) -> None:
    """Confine a child that was forked as the first process of a new process-id namespace.

    The nested user namespace comes last: it owns none of the mounts, so even its capabilities could not undo them, and
    the kernel counts processes per user namespace, so one rollout's fork bomb takes nothing from another.
    """
    setns(view, CLONE_NEWNS)
    unshare(CLONE_NEWNS)
    mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY, "subset=pid")
    os.chdir("/workspace")
    os.setsid()
    # Limits after the namespace: the kernel would hold its creator's process limit against all rollouts together.
    unshare(CLONE_NEWUSER)
    _set_limits(limits)
    drop_capabilities()
    prctl(_PR_SET_NO_NEW_PRIVS, 1)
    prctl(_PR_SET_DUMPABLE, 0)
    install_filter(rules.program)


def enter_landlock(folder: str, limits: Mapping[str, Any], rules: Rules) -> None:
    """Confine a child to `folder/workspace` and `folder/tmp` with Landlock, filter and resource limits alone."""
    prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os.chdir(f"{folder}/workspace")
    os.setsid()
    _set_limits(limits)
    devices = ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/random")
    landlock.restrict(rules.landlock_abi, rules.readable, (f"{folder}/workspace", f"{folder}/tmp"), devices)
    prctl(_PR_SET_DUMPABLE, 0)
    install_filter(rules.program)


def use_output(output: int, reply: socket.socket) -> None:
    """Let standard output and error go to `output`, standard input be empty, and close everything else."""
    null = os.open("/dev/null", os.O_RDONLY)
    for source, target in ((null, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    reply.detach()
    os.closerange(3, 1 << 16)
