"""The one interface of every sandbox backend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from common.sandbox.receipt import Language, Receipt
from common.sandbox.record import Record
from common.signing import VerifyKey

__all__ = ["Limits", "Sandbox", "SandboxSession"]


@dataclass(frozen=True)
class Limits:
    """What one execution may use.

    Args:
        wall_s: elapsed seconds before the whole process tree is killed.
        cpu_s: processor seconds a process.
        memory_bytes: address space a process.
        processes: processes and threads at once.
        workspace_bytes: size of the workspace.
        output_bytes: cap on standard output and error together.
    """

    wall_s: float = 20.0
    cpu_s: int = 15
    memory_bytes: int = 2 << 30
    processes: int = 64
    workspace_bytes: int = 16 << 20
    output_bytes: int = 16_384


class SandboxSession(Protocol):
    """One rollout's workspace."""

    @property
    def receipts(self) -> tuple[Receipt, ...]:
        """Everything executed so far, in order."""

    @property
    def rollout(self) -> str:
        """Random id that the record is bound to, 64 hex digits."""

    def execute(self, language: Language, code: str) -> Receipt:
        """Run code in this workspace; a failing, hanging or hostile program is a receipt, never an exception.

        Raises:
            SandboxError: the sandbox itself broke, or the session is sealed.
        """

    def seal(self) -> Record:
        """End the rollout: its record, after which nothing more is executed; the same when called again."""

    def files(self) -> dict[str, bytes]:
        """Regular files of the workspace by relative path; links, devices and anything outside are left out."""

    def close(self) -> None:
        """Kill what still runs and drop the workspace."""


class Sandbox(Protocol):
    """A backend that has proved its guarantees on this machine."""

    name: str
    public_key: VerifyKey

    def open(self, files: Mapping[str, bytes]) -> SandboxSession:
        """Make a workspace holding exactly `files` (relative path to content)."""

    def close(self) -> None:
        """End the workers and all sessions."""
