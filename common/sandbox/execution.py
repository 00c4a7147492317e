"""Watch one execution from outside: cap its output while reading, end it on time, and take its result."""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from dataclasses import dataclass

from common.errors import SandboxError
from common.sandbox.inside.protocol import receive, send
from common.sandbox.interface import Limits

__all__ = ["Outcome", "watch"]

_GRACE_S = 10.0
"""How long the fork server may take to report a child that was killed."""
_START_S = 20.0
"""How long the fork server may take to start a child."""
_FLOOD_FACTOR = 4096
"""A program that writes this many times its output cap is ended: reading on would only burn the host's processor."""
_BLOCK = 1 << 16


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
    def __init__(self, reply: socket.socket, output: int, limits: Limits) -> None:
        self._reply, self._output, self._limits = reply, output, limits
        self._kept = bytearray()
        self._total = 0
        self._handle: int | None = None
        self._started = self._killed = self._timed_out = self._ended = False
        self._result: dict[str, float] | None = None
        self._poll = select.poll()
        self._poll.register(reply, select.POLLIN)
        self._poll.register(output, select.POLLIN)

    def run(self) -> Outcome:
        begin = time.monotonic()
        deadline = begin + self._limits.wall_s
        last = begin + max(_START_S, self._limits.wall_s)
        while self._result is None:
            now = time.monotonic()
            if self._started and not self._killed and now >= deadline:
                self._timed_out = True
                self._kill()
                last = now + _GRACE_S
            if now >= last:
                raise SandboxError("the fork server does not answer")
            until = deadline if self._started and not self._killed else last
            for descriptor, _ in self._poll.poll(max(0.0, until - now) * 1000 + 1):
                if descriptor == self._output:
                    self._read()
                else:
                    self._take_message()
        wall = time.monotonic() - begin
        while self._read():
            pass
        result = self._result
        return Outcome(
            int(result["status"]),
            self._timed_out,
            wall,
            float(result["cpu_s"]),
            int(result["peak_kib"]) * 1024,
            bytes(self._kept),
            self._total > len(self._kept),
        )

    def close(self) -> None:
        if self._handle is not None:
            os.close(self._handle)

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
            self._started = True
            self._handle = descriptors[0] if descriptors else None
        else:
            self._result = fields

    def _read(self) -> bool:
        """Take what is there, keep at most the cap; false at the end."""
        block = os.read(self._output, _BLOCK)
        if not block:
            if not self._ended:
                self._poll.unregister(self._output)
            self._ended = True
            return False
        self._kept += block[: max(0, self._limits.output_bytes - len(self._kept))]
        self._total += len(block)
        if self._total > self._limits.output_bytes * _FLOOD_FACTOR and self._started and not self._killed:
            self._kill()
        return True

    def _kill(self) -> None:
        self._killed = True
        if self._handle is not None:
            signal.pidfd_send_signal(self._handle, signal.SIGKILL)
        else:
            send(self._reply, {"kill": True})


def watch(reply: socket.socket, output: int, limits: Limits) -> Outcome:
    """Follow an execution to its end.

    Args:
        reply: the execution's own channel from the fork server.
        output: read end of its output pipe, blocking.
        limits: wall clock and output cap to enforce.

    Raises:
        SandboxError: the server died, hangs, or could not confine the program.
    """
    follower = _Watch(reply, output, limits)
    try:
        return follower.run()
    finally:
        follower.close()
