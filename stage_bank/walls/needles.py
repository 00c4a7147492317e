"""Search for very many strings at once, in bytes of any kind."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterable

import numpy as np

__all__ = ["MIN_BINARY_LENGTH", "MIN_LENGTH", "NeedleIndex"]

MIN_LENGTH = 4
"""Characters; shorter strings occur by chance everywhere."""

MIN_BINARY_LENGTH = 6
"""In array bodies and decoded base64 a given string of four bytes occurs by chance once in 4 billion positions, and a
site has 10⁴ such strings and 10⁸ positions; six bytes make that rare enough not to refuse every state."""

_DIGITS = frozenset(b"0123456789")


class NeedleIndex:
    """Strings indexed by their first four bytes in every encoding searched for: UTF-8, Latin-1, UTF-16 (both orders).

    Case is ignored. A string of digits matches a whole number only, not part of a longer one or of a decimal fraction.

    Args:
        needles: strings; those shorter than `MIN_LENGTH` characters are left out.
    """

    def __init__(self, needles: Iterable[str]) -> None:
        patterns = {pattern for needle in needles for pattern in _encodings(needle)}
        self._by_prefix: dict[int, list[bytes]] = defaultdict(list)
        for pattern in sorted(patterns):
            self._by_prefix[int.from_bytes(pattern[:4], "little")].append(pattern)
        self._prefixes = np.array(sorted(self._by_prefix), dtype=np.uint32)

    def __len__(self) -> int:
        """Number of byte patterns."""
        return sum(len(patterns) for patterns in self._by_prefix.values())

    def occurs_in(self, data: bytes, *, binary: bool) -> bool:
        """Whether any string occurs.

        Args:
            data: where to look.
            binary: leave out patterns shorter than `MIN_BINARY_LENGTH` bytes.
        """
        if len(data) < 4 or self._prefixes.size == 0:
            return False
        lower = data.lower()  # ASCII letters only, which is how the patterns were folded
        return any(
            lower.startswith(pattern, position) and _stands_alone(pattern, lower, position)
            for position in self._candidates(lower)
            for pattern in self._by_prefix[int.from_bytes(lower[position : position + 4], "little")]
            if not binary or len(pattern) >= MIN_BINARY_LENGTH
        )

    def _candidates(self, data: bytes) -> list[int]:
        """Positions where the first four bytes of some pattern stand."""
        flat = np.frombuffer(data, dtype=np.uint8).astype(np.uint32)
        windows = flat[:-3] | flat[1:-2] << 8 | flat[2:-1] << 16 | flat[3:] << 24
        slots = np.searchsorted(self._prefixes, windows)
        slots[slots == self._prefixes.size] = 0
        found: list[int] = np.flatnonzero(self._prefixes[slots] == windows).tolist()
        return found


def _encodings(needle: str) -> set[bytes]:
    text = needle.strip()
    if len(text) < MIN_LENGTH:
        return set()
    encoded = {text.encode("utf-8", "surrogateescape"), text.encode("utf-16-le", "surrogatepass")}
    encoded.add(text.encode("utf-16-be", "surrogatepass"))
    with contextlib.suppress(UnicodeEncodeError):
        encoded.add(text.encode("latin-1"))
    return {pattern.lower() for pattern in encoded}


def _stands_alone(pattern: bytes, data: bytes, position: int) -> bool:
    """Numbers only: not inside a longer number. Sixteen-bit digits carry a zero byte, which is skipped over."""
    if not set(pattern) <= _DIGITS | {0}:
        return True
    step = 2 if 0 in pattern else 1
    before = data[max(0, position - step) : position].strip(b"\0")
    after = data[position + len(pattern) : position + len(pattern) + step].strip(b"\0")
    return not (before[-1:].isdigit() or before[-1:] == b"." or after[:1].isdigit())
