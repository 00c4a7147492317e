"""Starting, watching and surely ending the processes of one federation on one machine."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import psutil

from common.errors import FederationError

__all__ = ["Component", "MemoryMeter", "Supervisor"]

PR_SET_CHILD_SUBREAPER = 36

GRACE_S = 8.0
"""Seconds a component has to end by itself before it is killed."""

LEFTOVER_S = 1.0
"""Seconds that descendants have after their component has ended."""

GUARDIAN = """
import os, signal, sys
groups = [int(line) for line in sys.stdin]
for group in groups:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass
"""
"""Program of the guardian: learns process groups until its input ends, that is, until the supervisor is gone.

`PR_SET_PDEATHSIG` would not do: the kernel forgets it when a component changes a user id, as the sandbox does.
"""

_LIBC = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Component:
    """One supervised process.

    Args:
        name: what a person calls it.
        process: the process; it leads a session of its own.
        log: file with its output.
    """

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def last_line(self) -> str:
        """The last non-empty line of its output."""
        with contextlib.suppress(OSError):
            lines = [line.strip() for line in self.log.read_text(errors="replace").splitlines()]
            return next((line for line in reversed(lines) if line), "")
        return ""


class Supervisor:
    """Owns a set of processes; leaving the `with` block ends every one of them and all their descendants.

    The components do not share the terminal's process group, so that Ctrl-C reaches the supervisor alone and the ending
    is orderly. If the supervisor is killed outright, a guardian process kills the components.

    Args:
        logs: folder for one log file a component.
        environment: the components' whole environment.
    """

    def __init__(self, logs: Path, environment: Mapping[str, str]) -> None:
        self._logs = logs
        self._environment = dict(environment)
        self.components: list[Component] = []
        # Descendants whose parent ended are handed to this process instead of to init, and so can still be found.
        _LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._guardian = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", GUARDIAN], stdin=subprocess.PIPE, start_new_session=True
        )

    def __enter__(self) -> Supervisor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self, name: str, command: Sequence[str | Path], **environment: str) -> Component:
        """Start a component with its output in `logs/<name>.log`.

        Args:
            name: unique name.
            command: program and arguments.
            environment: variables on top of the supervisor's.

        Raises:
            FederationError: the program cannot be started.
        """
        log = self._logs / f"{name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        try:
            with log.open("ab") as stream:
                process = subprocess.Popen(
                    [os.fspath(part) for part in command],
                    stdin=subprocess.DEVNULL,
                    stdout=stream,
                    stderr=subprocess.STDOUT,
                    env={**self._environment, **environment},
                    start_new_session=True,
                )
        except OSError as error:
            raise FederationError(f"cannot start {name}: {error.strerror}", where=str(command[0])) from error
        component = Component(name, process, log)
        self.components.append(component)
        if self._guardian.stdin is not None:
            self._guardian.stdin.write(f"{process.pid}\n".encode())
            self._guardian.stdin.flush()
        return component

    def check(self, besides: Component | None = None) -> None:
        """Make sure that every component still runs.

        Args:
            besides: one whose end is expected.

        Raises:
            FederationError: one has ended; says which, and its last words.
        """
        for component in self.components:
            status = component.process.poll()
            if status is not None and component is not besides:
                said = component.last_line.removeprefix("bat-client: ").removeprefix("bat-server: ")
                raise FederationError(f"{component.name}: {said or f'ended with status {status}'}")

    def end(self, component: Component) -> None:
        """End one component on purpose."""
        self.components.remove(component)
        _end([component])

    def stop(self) -> None:
        """End all components, last started first, then whatever is left below this process. Safe to call twice."""
        components, self.components = self.components[::-1], []
        _end(components)

    def close(self) -> None:
        """End all components and the guardian."""
        self.stop()
        self._guardian.kill()
        self._guardian.communicate()


def _end(components: Sequence[Component]) -> None:
    family = [process for component in components for process in _family(component.process.pid)]
    for component in components:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(component.process.pid, signal.SIGTERM)
    deadline = time.monotonic() + GRACE_S
    for component in components:
        with contextlib.suppress(subprocess.TimeoutExpired):
            component.process.wait(max(0.0, deadline - time.monotonic()))
    _, alive = psutil.wait_procs(family, timeout=LEFTOVER_S)
    for process in alive:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(alive, timeout=2.0)
    for component in components:
        component.process.wait()


def _family(pid: int) -> Iterator[psutil.Process]:
    with contextlib.suppress(psutil.NoSuchProcess):
        parent = psutil.Process(pid)
        yield parent
        yield from parent.children(recursive=True)


class MemoryMeter:
    """Samples the resident memory of this process and all its descendants in a background thread.

    A page shared by n processes counts as 1/n of a page in each (Linux' proportional set size), so that the sum is what
    the machine really holds.

    Args:
        interval_s: seconds between samples.
    """

    def __init__(self, interval_s: float = 2.0) -> None:
        self.peak_bytes = 0
        self._interval_s = interval_s
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="memory", daemon=True)

    def __enter__(self) -> MemoryMeter:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()

    def _run(self) -> None:
        own = psutil.Process()
        while True:
            self.peak_bytes = max(self.peak_bytes, _resident(own))
            if self._done.wait(self._interval_s):
                return


def _resident(process: psutil.Process) -> int:
    return sum(_proportional(member) for member in [process, *process.children(recursive=True)])


def _proportional(process: psutil.Process) -> int:
    """Bytes; the plain resident size where the kernel does not let us look closer, 0 when the process is gone."""
    with contextlib.suppress(psutil.NoSuchProcess):
        try:
            return int(process.memory_full_info().pss)
        except psutil.AccessDenied:
            return int(process.memory_info().rss)
    return 0
