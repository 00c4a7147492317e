"""Watch one execution from outside: cap its output while reading, end it on time, and take its result."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

from common.errors import SandboxError
from common.sandbox.inside.protocol import receive, send
from common.sandbox.interface import Limits
from common.sandbox.processes import pid_of, tree_usage

__all__ = ["Outcome", "UnresponsiveError", "watch"]

_GRACE_S = 10.0
"""How long the fork server may take to report a child that was killed."""
_START_S = 20.0
"""How long the fork server may take to start a child."""
_FLOOD_FACTOR = 4096
"""A program that writes this many times its output cap is ended: reading on would only burn the host's processor."""
_BLOCK = 1 << 16
_LOOK_S = 0.05
"""How often the process tree is looked at from outside."""


class UnresponsiveError(SandboxError):
    """The fork server neither answered nor ended; it has to be killed."""


@dataclass(frozen=True)
class Outcome:
    """What is known of an execution that ended; times in seconds."""

    exit_status: int
    timed_out: bool
    wall_s: float
    cpu_s: float
    peak_memory_bytes: int
    output: bytes
    output_truncated: bool


class _Watch:
    def __init__(
        self, reply: socket.socket, output: int, stop: int, limits: Limits, disk_bytes: Callable[[], int] | None
    ) -> None:
        self._reply, self._output, self._stop, self._limits = reply, output, stop, limits
        self._disk_bytes = disk_bytes
        self._kept = bytearray()
        self._total = 0
        self._handle: int | None = None
        self._kill_by_message = False
        self._cpu_s = 0.0  # Seen from outside: the kernel forgets children that nobody waited for.
        self._stopping = self._killed = self._timed_out = False
        self._result: dict[str, float] | None = None
        self._begin = time.monotonic()
        self._give_up = self._begin + max(_START_S, limits.wall_s)
        self._next_look = self._begin + _LOOK_S
        self._poll = select.poll()
        for descriptor in (reply.fileno(), output, stop):
            self._poll.register(descriptor, select.POLLIN)

    def run(self) -> Outcome:
        while self._result is None:
            for descriptor, _ in self._poll.poll(self._wait_s() * 1000):
                if descriptor == self._output:
                    if self._read() == 0:
                        self._poll.unregister(self._output)
                elif descriptor == self._stop:
                    self._poll.unregister(self._stop)
                    self._stopping = True
                else:
                    self._take_message()
            self._enforce()
        wall = time.monotonic() - self._begin
        while self._read():
            pass
        return Outcome(
            int(self._result["status"]),
            self._timed_out,
            wall,
            max(float(self._result["cpu_s"]), self._cpu_s),
            int(self._result["peak_kib"]) * 1024,
            bytes(self._kept),
            self._total > len(self._kept),
        )

    def close(self) -> None:
        if self._handle is not None:
            os.close(self._handle)

    def _wait_s(self) -> float:
        """Until when nothing needs to be checked."""
        now = time.monotonic()
        if self._handle is None or self._killed:
            return max(0.001, self._give_up - now)
        return max(0.001, min(self._next_look, self._begin + self._limits.wall_s) - now)

    def _enforce(self) -> None:
        now = time.monotonic()
        if self._result is None and now >= self._give_up:
            raise UnresponsiveError("the sandbox's worker gave no result in time", remedy="Close other heavy programs.")
        if self._handle is None or self._killed or self._result is not None:
            return
        self._timed_out = now - self._begin >= self._limits.wall_s
        flooded = self._total > self._limits.output_bytes * _FLOOD_FACTOR
        if self._timed_out or flooded or self._stopping or self._takes_too_much(now):
            self._killed = True
            self._give_up = now + _GRACE_S
            self._kill()

    def _takes_too_much(self, now: float) -> bool:
        """Whether all processes together exceed what no limit of the kernel's covers here: memory and, maybe, disk."""
        if now < self._next_look or self._handle is None:
            return False
        self._next_look = now + _LOOK_S
        if self._disk_bytes is not None and self._disk_bytes() > self._limits.workspace_bytes:
            return True
        pid = pid_of(self._handle)
        if pid is None:
            return False
        usage = tree_usage(pid)
        self._cpu_s = max(self._cpu_s, usage.cpu_s)
        return usage.memory_bytes > self._limits.memory_bytes

    def _take_message(self) -> None:
        try:
            message = receive(self._reply)
        except (OSError, ValueError):
            message = None
        if message is None:
            raise SandboxError("the fork server died during an execution", remedy="Open a new session.")
        fields, descriptors = message
        if "error" in fields:
            raise SandboxError("the fork server could not run a program", where=str(fields["error"])[:500])
        if "started" in fields:
            self._handle = descriptors[0]
            self._kill_by_message = fields["kill"] == "message"
        else:
            self._result = fields

    def _read(self) -> int:
        """Take what is there, keep at most the cap; 0 at the end."""
        try:
            block = os.read(self._output, _BLOCK)
        except BlockingIOError:
            return 0 if self._result is not None else -1
        self._kept += block[: max(0, self._limits.output_bytes - len(self._kept))]
        self._total += len(block)
        return len(block)

    def _kill(self) -> None:
        with contextlib.suppress(OSError):  # It may just have ended by itself; the result then says so.
            if self._kill_by_message:
                send(self._reply, {"kill": True})
            elif self._handle is not None:
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)


def watch(
    reply: socket.socket, output: int, stop: int, limits: Limits, disk_bytes: Callable[[], int] | None = None
) -> Outcome:
    """Follow an execution to its end.

    Args:
        reply: the execution's own channel from the fork server.
        output: read end of its output pipe, non-blocking: a program may reopen and drain its own pipe.
        stop: becomes readable when the execution shall end early.
        limits: wall clock, memory and output cap to enforce.
        disk_bytes: measures the workspace, where the kernel does not bound it.

    Raises:
        SandboxError: the server died, or could not confine the program.
        UnresponsiveError: the server hangs.
    """
    follower = _Watch(reply, output, stop, limits, disk_bytes)
    try:
        return follower.run()
    finally:
        follower.close()
