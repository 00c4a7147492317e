"""Look at a process tree from outside, through /proc."""

from __future__ import annotations

import os
from dataclasses import dataclass

__all__ = ["Usage", "pid_of", "tree_usage"]

_TICKS = os.sysconf("SC_CLK_TCK")
_STAT_TIMES = slice(11, 15)
"""Own and waited-for children's user and system time, counted from the field after the program's name."""


@dataclass(frozen=True)
class Usage:
    """What a tree of living processes uses.

    Args:
        memory_bytes: anonymous and shared memory that is resident. Pages that a fork still shares with its parent
            count for both, so this is an upper bound.
        cpu_s: user plus system seconds, including children that were waited for.
    """

    memory_bytes: int
    cpu_s: float


def pid_of(handle: int) -> int | None:
    """Process id, in our own namespace, of a pidfd; `None` once the process is gone."""
    with open(f"/proc/self/fdinfo/{handle}", encoding="ascii") as info:
        for line in info:
            if line.startswith("Pid:"):
                pid = int(line.split()[1])
                return pid if pid > 0 else None
    return None


def tree_usage(root: int) -> Usage:
    """Usage of `root` and its living descendants; a process that ends meanwhile counts as nothing."""
    memory = ticks = 0
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        try:
            with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as status:
                memory += sum(int(line.split()[1]) for line in status if line.startswith(("RssAnon:", "RssShmem:")))
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stat:
                ticks += sum(map(int, stat.read().rpartition(")")[2].split()[_STAT_TIMES]))
            with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as children:
                waiting += [int(word) for word in children.read().split()]
        except OSError:
            continue
    return Usage(memory * 1024, ticks / _TICKS)
