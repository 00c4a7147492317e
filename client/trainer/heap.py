"""Memory that training frees goes back to the machine, so that the sites of one machine do not each keep their peak."""

from __future__ import annotations

import ctypes

__all__ = ["return_freed_memory"]

_libc = ctypes.CDLL(None)


def return_freed_memory() -> None:
    """Give free pages of the heap back (malloc_trim(3)); nothing happens where the C library has no such call."""
    trim = getattr(_libc, "malloc_trim", None)
    if trim is not None:
        trim(0)
