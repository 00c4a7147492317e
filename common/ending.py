"""Ending a program in order: what it unpacked is removed, whatever asks it to end."""

from __future__ import annotations

import signal
from types import FrameType

__all__ = ["end_in_order"]


def end_in_order() -> None:
    """Let SIGTERM and SIGHUP end the process as Ctrl-C does: `with` and `finally` blocks run. Main thread only."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
