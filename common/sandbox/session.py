"""One rollout's workspace on the host: executions one after another, each with a signed, chained receipt."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from common.errors import SandboxError
from common.sandbox.execution import Outcome
from common.sandbox.interface import Limits
from common.sandbox.receipt import Execution, Language, Receipt
from common.sandbox.record import Record, Recorder
from common.sandbox.tree import as_user, digest_tree, read_tree, remove_tree, write_tree
from common.signing import SigningKey

__all__ = ["Session", "Workspace"]

_BUDGET_FACTOR = 4
"""Bytes read of a workspace at most, in workspace sizes; only sparse files exceed one."""


@dataclass(frozen=True)
class Workspace:
    """Where a session's files are.

    Args:
        folder: descriptor of the workspace folder.
        uid: user who owns it, where that is not the host's own.
        view: descriptor of what an execution enters: the mount namespace, or the folder around the workspace.
        path: folder on the host to remove at the end, if the backend has one.
    """

    folder: int
    uid: int | None
    view: int
    path: Path | None


class Session:
    """See `SandboxSession`. Calls from several threads are served one after another."""

    def __init__(
        self,
        workspace: Workspace,
        files: Mapping[str, bytes],
        run: Callable[[str, bytes, int], Outcome],
        key: SigningKey,
        backend: str,
        limits: Limits,
        on_close: Callable[[Session], None],
    ) -> None:
        self._workspace, self._run = workspace, run
        self._budget = _BUDGET_FACTOR * limits.workspace_bytes
        self._lock = threading.Lock()
        self._on_close = on_close
        self._open = True
        self._stop: int | None = None
        self._stop_lock = threading.Lock()
        try:
            with as_user(workspace.uid):
                write_tree(workspace.folder, files)
                self._files = digest_tree(workspace.folder, self._budget)
            self._recorder = Recorder(key, backend, self._files)
        except BaseException:
            self.close()
            raise

    @property
    def receipts(self) -> tuple[Receipt, ...]:
        """Everything executed so far, in order."""
        return self._recorder.receipts

    @property
    def rollout(self) -> str:
        """Random id that the record is bound to, 64 hex digits."""
        return self._recorder.rollout

    def execute(self, language: Language, code: str) -> Receipt:
        """Run code in this workspace; a failing, hanging or hostile program is a receipt, never an exception.

        Characters that UTF-8 cannot carry (lone surrogates) are replaced by `?` before the code runs, and so recorded.

        Raises:
            SandboxError: the sandbox itself broke, or the session is sealed or closed.
        """
        program = code.encode(errors="replace")
        language = Language(language)
        with self._lock:
            self._check_open()
            if self._recorder.sealed:
                raise SandboxError("the rollout is sealed", remedy="Open a new session.")
            with self._stoppable() as stop:
                outcome = self._run(language, program, stop)
            with as_user(self._workspace.uid):
                after = digest_tree(self._workspace.folder, self._budget)
            receipt = self._recorder.add(_execution(language, program.decode(), outcome, self._files, after))
            self._files = after
            return receipt

    def seal(self) -> Record:
        """End the rollout: its record, after which nothing more is executed; the same when called again.

        Raises:
            SandboxError: the session is closed.
        """
        with self._lock:
            self._check_open()
            return self._recorder.seal(self._files)

    def files(self) -> dict[str, bytes]:
        """Regular files of the workspace by relative path; links, devices and anything outside are left out."""
        with self._lock, as_user(self._workspace.uid):
            self._check_open()
            return dict(read_tree(self._workspace.folder, self._budget))

    def close(self) -> None:
        """Kill what still runs and drop the workspace."""
        with self._stop_lock:
            if self._stop is not None:
                os.eventfd_write(self._stop, 1)
        with self._lock:
            if not self._open:
                return
            self._open = False
            for descriptor in (self._workspace.folder, self._workspace.view):
                os.close(descriptor)
            self._on_close(self)
            if self._workspace.path is not None:
                remove_tree(self._workspace.path)

    @contextlib.contextmanager
    def _stoppable(self) -> Iterator[int]:
        """A descriptor that becomes readable when `close` wants the execution to end."""
        with self._stop_lock:
            self._stop = stop = os.eventfd(0, os.EFD_CLOEXEC)
        try:
            yield stop
        finally:
            with self._stop_lock:
                os.close(stop)
                self._stop = None

    def _check_open(self) -> None:
        if not self._open:
            raise SandboxError("the session is closed")


def _execution(
    language: Language, code: str, outcome: Outcome, before: Mapping[str, str], after: Mapping[str, str]
) -> Execution:
    return Execution(
        language=language,
        code=code,
        exit_status=outcome.exit_status,
        timed_out=outcome.timed_out,
        wall_s=round(outcome.wall_s, 6),
        cpu_s=round(outcome.cpu_s, 6),
        peak_memory_bytes=outcome.peak_memory_bytes,
        output=outcome.output.decode(errors="replace"),
        output_truncated=outcome.output_truncated,
        created={path: digest for path, digest in after.items() if path not in before},
        modified={path: digest for path, digest in after.items() if path in before and before[path] != digest},
        deleted={path: digest for path, digest in before.items() if path not in after},
    )
