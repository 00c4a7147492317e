"""`status.json`: how far a demonstration came, readable even when it ended on a full disk."""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path

__all__ = ["STATUS_FILE", "StatusFile"]

STATUS_FILE = "status.json"

RESERVED_BYTES = 4096
"""The file is written at this size once and afterwards only overwritten, so that it never needs another block."""


class StatusFile:
    """Writer of a run directory's `status.json`.

    Args:
        folder: the run directory.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / STATUS_FILE
        self._started = time.time()
        self.phase = "starting"

    def running(self, phase: str) -> None:
        """Note that `phase` has begun.

        Raises:
            OSError: the file cannot be written.
        """
        self.phase = phase
        self._write("running", "")

    def complete(self) -> None:
        """Note that the run reached its end."""
        self._write("complete", "")

    def ended(self, state: str, reason: str) -> None:
        """Note an early end (`failed` or `interrupted`); a disk that refuses even this is passed over."""
        with contextlib.suppress(OSError):
            self._write(state, reason)

    def _write(self, state: str, reason: str) -> None:
        now = time.time()
        fields = {
            "state": state,
            "phase": self.phase,
            "reason": reason[:1000],
            "started_unix": round(self._started, 3),
            "updated_unix": round(now, 3),
            "elapsed_s": round(now - self._started, 1),
        }
        data = json.dumps(fields, indent=1, ensure_ascii=False).encode().ljust(RESERVED_BYTES - 1) + b"\n"
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            os.pwrite(descriptor, data, 0)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
