"""The supervisor of one execution where there are no namespaces: it confines the child and ends the whole tree.

Orphans of the tree become the supervisor's children (PR_SET_CHILD_SUBREAPER). From Landlock ABI 6 on, the supervisor
first enters a domain of its own that scopes signals, so that one `kill(-1)` hits exactly the agent's processes and
nothing can fork past it; before, it ends children until none are left.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import socket
import time
from collections.abc import Mapping
from typing import Any

from . import landlock
from .confine import Rules, enter_landlock, use_output
from .linux import prctl
from .protocol import receive, send

__all__ = ["supervise"]

_PR_SET_CHILD_SUBREAPER = 36
_END_TREE_S = 5.0


def supervise(
    folder: str, code: int, output: int, reply: socket.socket, limits: Mapping[str, Any], rules: Rules
) -> bytes | None:
    """Fork and watch the child that will run agent code.

    Args:
        folder: the rollout's folder, holding `workspace` and `tmp`.
        code: descriptor of the program.
        output: descriptor that standard output and error go to.
        reply: where the result goes; a message or a hang-up on it ends the execution.
        limits: fields of `Limits`.
        rules: what the child is confined to.

    Returns:
        The program, in the confined child; `None` in the supervisor, after the result was sent.
    """
    prctl(_PR_SET_CHILD_SUBREAPER, 1)
    scoped = rules.landlock_abi >= 6
    server = os.getppid()
    if scoped:
        landlock.scope_signals()
        scoped = not _may_signal(server)
    limits = {**limits, "processes": limits["processes"] + _processes_of_user()}
    pid = os.fork()
    if pid == 0:
        with open(code, "rb", closefd=False) as stream:
            program = stream.read()
        enter_landlock(folder, limits, rules)
        use_output(output, reply)
        return program
    os.close(output)
    handle, own = os.pidfd_open(pid), os.pidfd_open(os.getpid())
    send(reply, {"started": True, "kill": "message"}, [own])
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    poll.register(reply, select.POLLIN)
    if handle not in dict(poll.poll()):
        with contextlib.suppress(OSError):
            receive(reply)  # A socket closed with an unread message would reset the host's end and lose the result.
        signal.pidfd_send_signal(handle, signal.SIGKILL)
    _, status, _ = os.wait4(pid, 0)
    if not _end_tree(scoped):
        send(reply, {"error": "cannot end the agent's processes"})
        return None
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = {"status": os.waitstatus_to_exitcode(status), "cpu_s": usage.ru_utime + usage.ru_stime}
    send(reply, {**result, "peak_kib": usage.ru_maxrss})
    return None


def _may_signal(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except PermissionError:
        return False
    return True


def _processes_of_user() -> int:
    """Threads that this user already has: the kernel's process limit counts them too."""
    count = 0
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.stat(f"/proc/{name}").st_uid == os.getuid():
                count += len(os.listdir(f"/proc/{name}/task"))
        except OSError:
            continue
    return count


def _end_tree(scoped: bool) -> bool:
    """Kill and reap until no child is left; false when that took too long."""
    deadline = time.monotonic() + _END_TREE_S
    while time.monotonic() < deadline:
        for pid in [-1] if scoped else _children():
            try:
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue
        try:
            while os.wait4(-1, os.WNOHANG)[0] != 0:
                pass
        except ChildProcessError:
            return True
        time.sleep(0.001)
    return False


def _children() -> list[int]:
    with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as stream:
        return [int(word) for word in stream.read().split()]
