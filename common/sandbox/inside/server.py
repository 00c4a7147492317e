"""The warm fork server: imports everything once, then forks a confined child for each execution.

It never touches a rollout's data (see `protocol`). It ends when the host closes the control channel, and with it, being
the only child of its process-id namespace's first process, everything inside ends.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import select
import signal
import socket
import sys
import traceback
from collections.abc import Mapping
from typing import Any

from . import landlock
from .commands import Command
from .confine import Rules, enter_namespaces, make_view, use_output
from .languages import load_commands, run_program
from .linux import CLONE_NEWPID, MS_PRIVATE, MS_REC, collapse_huge_pages, fork_into, mount, prctl
from .protocol import receive, send
from .reduced import supervise
from .seccomp import build_filter

__all__ = ["main"]

_PR_SET_DUMPABLE = 4
_BROKEN = 125


def main(control: int) -> None:
    """Serve the control channel at this descriptor; the configuration is the first message."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as score:
        score.write("1000")  # Where memory runs out, agent code goes first; has to come before the next line.
    prctl(_PR_SET_DUMPABLE, 0)
    os.umask(0o022)
    channel = socket.socket(fileno=control)
    first = receive(channel)
    if first is None:
        return
    try:
        server = _Server(channel, first[0])
    except Exception:
        send(channel, {"error": traceback.format_exc()[-2000:]})
        return
    handle = os.pidfd_open(os.getpid())
    send(channel, {"ready": True}, [handle])
    os.close(handle)
    server.serve()


class _Server:
    def __init__(self, channel: socket.socket, settings: dict[str, Any]) -> None:
        self._channel = channel
        self._limits: dict[str, Any] = settings["limits"]
        self._environment: dict[str, str] = settings["environment"]
        self._namespaces: bool = settings["backend"] == "bwrap"
        sys.path[:] = [*sys.path, *settings["path"]]
        os.environ.clear()
        os.environ.update(self._environment)
        version = 0 if self._namespaces else min(landlock.abi(), settings["highest_landlock_abi"])
        program = build_filter(landlock_abi=None if self._namespaces else version)
        self._rules = Rules(program, tuple(settings["readable"]), version)
        if self._namespaces:
            mount("none", "/", None, MS_REC | MS_PRIVATE)
        for name in settings["preload"]:
            importlib.import_module(name)
        self._commands: Mapping[str, Command] = load_commands(settings["commands"])
        self._poll = select.poll()
        self._poll.register(channel, select.POLLIN)
        self._running: dict[int, tuple[int, socket.socket | None]] = {}
        self._abandoned: dict[int, int] = {}
        if len(os.listdir("/proc/self/task")) != 1:
            raise RuntimeError("a preloaded module started a thread; only one may be running when the server forks")
        gc.collect()
        gc.freeze()
        collapse_huge_pages()

    def serve(self) -> None:
        """Answer until the host goes away."""
        while True:
            for descriptor, _ in self._poll.poll():
                if descriptor in self._running:
                    self._report(descriptor)
                    continue
                if descriptor in self._abandoned:
                    # The host gave this execution up, or died; nobody else would enforce its time limit.
                    self._poll.unregister(descriptor)
                    signal.pidfd_send_signal(self._abandoned.pop(descriptor), signal.SIGKILL)
                    continue
                request = receive(self._channel)
                if request is None:
                    return
                self._handle(*request)

    def _handle(self, request: dict[str, Any], descriptors: list[int]) -> None:
        try:
            if request["do"] == "open":
                self._open(descriptors)
            else:
                self._run(request, descriptors)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _open(self, descriptors: list[int]) -> None:
        reply = socket.socket(fileno=os.dup(descriptors[0]))
        with reply:
            try:
                view = make_view(self._limits["workspace_bytes"])
            except OSError as error:
                send(reply, {"error": f"cannot make a workspace: {error}"})
                return
            with contextlib.suppress(OSError):
                send(reply, {"opened": True}, view)
            for descriptor in view:
                os.close(descriptor)

    def _run(self, request: dict[str, Any], descriptors: list[int]) -> None:
        """Fork the child and tell the host how to kill it. Descriptors: reply, code, output, view or folder."""
        reply = socket.socket(fileno=os.dup(descriptors[0]))
        try:
            pid = fork_into(CLONE_NEWPID) if self._namespaces else os.fork()
        except OSError as error:
            send(reply, {"error": f"cannot fork: {error}"})
            reply.close()
            return
        if pid == 0:
            status = _BROKEN
            try:
                status = self._child(request, reply, descriptors)
            finally:
                os._exit(status)
        handle = os.pidfd_open(pid)
        self._running[handle] = (pid, reply if self._namespaces else None)
        self._poll.register(handle, select.POLLIN)
        if self._namespaces:
            self._abandoned[reply.fileno()] = handle
            self._poll.register(reply, 0)  # Only reports a hang-up.
            with contextlib.suppress(OSError):
                send(reply, {"started": True, "kill": "signal"}, [handle])
        else:
            reply.close()

    def _child(self, request: dict[str, Any], reply: socket.socket, descriptors: list[int]) -> int:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        _, code, output = descriptors[:3]
        environment = dict(self._environment)
        try:
            if self._namespaces:
                with open(code, "rb", closefd=False) as stream:
                    program: bytes | None = stream.read()
                enter_namespaces(descriptors[3], self._limits, self._rules)
                use_output(output, reply)
            else:
                self._channel.close()
                folder = os.readlink(f"/proc/self/fd/{descriptors[3]}")
                program = supervise(folder, code, output, reply, self._limits, self._rules)
                environment |= {"HOME": f"{folder}/workspace", "TMPDIR": f"{folder}/tmp"}
        except BaseException as error:
            send(reply, {"error": f"cannot confine the child: {error!r}"})
            return _BROKEN
        if program is None:
            return 0
        return run_program(request["language"], program, self._commands, environment)

    def _report(self, handle: int) -> None:
        """Reap a child and, unless its supervisor did so, send the result."""
        pid, reply = self._running.pop(handle)
        self._poll.unregister(handle)
        _, status, usage = os.wait4(pid, 0)
        os.close(handle)
        if reply is None:
            return
        if self._abandoned.pop(reply.fileno(), None) is not None:
            self._poll.unregister(reply)
        result = {"status": os.waitstatus_to_exitcode(status), "cpu_s": usage.ru_utime + usage.ru_stime}
        with reply, contextlib.suppress(OSError):
            send(reply, {**result, "peak_kib": usage.ru_maxrss})
