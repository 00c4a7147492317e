"""The host's side of one fork server: start it, ask it for workspaces and executions, end it."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.errors import SandboxError
from common.sandbox.execution import Outcome, UnresponsiveError, watch
from common.sandbox.inside.protocol import receive, send
from common.sandbox.interface import Limits

__all__ = ["Command", "Worker"]

_READY_S = 120.0
_OPEN_S = 120.0
_END_S = 5.0


@dataclass(frozen=True)
class Command:
    """How to start a fork server.

    Args:
        argv: program and arguments; the number of the control descriptor is appended.
        uid: user to become first (root only), or `None`.
        binds: target to source, bound in a private mount namespace before the user is changed (root only).
        settings: first message to the server.
        log: file that collects what the server itself prints.
    """

    argv: Sequence[str]
    uid: int | None
    binds: Mapping[str, str]
    settings: Mapping[str, Any]
    log: Path


class Worker:
    """A running fork server.

    Raises:
        SandboxError: it did not come up.
    """

    def __init__(self, command: Command, limits: Limits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._handle: int | None = None
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = _start(command, theirs.fileno())
        try:
            send(self._channel, {**command.settings, "limits": dataclasses.asdict(limits)})
            ready, descriptors = self._wait_ready(command.log)
            self._handle = descriptors[0]
        except BaseException:
            self.close()
            raise
        assert ready["ready"]

    def _wait_ready(self, log: Path) -> tuple[dict[str, Any], list[int]]:
        message = None
        if _readable(self._channel, _READY_S):
            with contextlib.suppress(OSError, ValueError):
                message = receive(self._channel)
        said = log.read_text(errors="replace")[-500:].strip()
        if message is None:
            raise SandboxError("the sandbox worker did not start", where=said or "no message")
        if "error" in message[0]:
            raise SandboxError("the sandbox worker did not start", where=str(message[0]["error"])[-500:])
        return message

    @property
    def alive(self) -> bool:
        """Whether the server still runs."""
        return self._process.poll() is None

    def open_view(self) -> tuple[int, int]:
        """Descriptors of a new rollout's mount namespace and workspace folder (backend `bwrap`)."""
        with self._request({"do": "open"}, ()) as reply:
            answer = receive(reply) if _readable(reply, _OPEN_S) else None
        if answer is None:
            raise SandboxError(
                f"the sandbox's worker gave no workspace within {_OPEN_S:.0f} s", remedy="Close other heavy programs."
            )
        if "error" in answer[0]:
            raise SandboxError("the fork server could not make a workspace", where=str(answer[0]["error"])[:200])
        view, folder = answer[1]
        return view, folder

    def run(
        self, language: str, code: bytes, view: int, stop: int, disk_bytes: Callable[[], int] | None = None
    ) -> Outcome:
        """Run `code` to its end.

        Args:
            language: a `Language`.
            code: the program.
            view: descriptor of the rollout's mount namespace or, for the reduced backend, folder.
            stop: becomes readable when the execution shall end early.
            disk_bytes: measures the workspace, where the kernel does not bound it.

        Raises:
            SandboxError: the server broke, or could not confine the program.
        """
        program = os.memfd_create("program", os.MFD_CLOEXEC)
        read, write = os.pipe2(os.O_CLOEXEC)
        try:
            os.set_blocking(read, False)
            with open(program, "wb", closefd=False) as stream:
                stream.write(code)
            os.lseek(program, 0, os.SEEK_SET)
            reply = self._request({"do": "run", "language": language}, (program, write, view))
            os.close(write)
            write = -1
            with reply:
                return watch(reply, read, stop, self._limits, disk_bytes)
        except UnresponsiveError:
            self.close()
            raise
        finally:
            for descriptor in (program, read, write):
                if descriptor >= 0:
                    os.close(descriptor)

    def _request(self, message: Mapping[str, Any], descriptors: Sequence[int]) -> socket.socket:
        """Send a request together with its own reply channel, whose other end is returned."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs, self._lock:
                send(self._channel, message, (theirs.fileno(), *descriptors))
        except OSError as error:
            ours.close()
            raise SandboxError("the fork server died", remedy="Open a new session.") from error
        return ours

    def close(self) -> None:
        """End the server and everything in it."""
        with self._lock:
            self._channel.close()
            if self._handle is not None:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(self._handle, signal.SIGKILL)
                os.close(self._handle)
                self._handle = None
            try:
                self._process.wait(_END_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


def _readable(channel: socket.socket, seconds: float) -> bool:
    """Wait with poll(2): select(2) fails above 1,024 descriptors."""
    poll = select.poll()
    poll.register(channel, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


def _start(command: Command, control: int) -> subprocess.Popen[bytes]:
    argv = [*command.argv, str(control)]
    if command.uid is not None:
        order = {"uid": command.uid, "binds": dict(command.binds), "argv": argv}
        argv = [sys.executable, "-I", "-S", str(Path(__file__).with_name("launch.py")), json.dumps(order)]
    log = os.open(command.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        return subprocess.Popen(
            argv,
            env={},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=(control,),
            start_new_session=True,
        )
    except OSError as error:
        raise SandboxError(f"cannot start the sandbox worker: {error.strerror}", where=argv[0]) from error
    finally:
        os.close(log)
