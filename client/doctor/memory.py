"""Memory for one round: the policy, its rollouts and the sandbox's workers."""

from __future__ import annotations

from collections.abc import Iterator

import psutil

from client.doctor.check import Finding, State, fine
from client.site_config import SiteConfig

__all__ = ["look"]

ENOUGH_BYTES = 3 << 30
"""What a site of the demonstration takes at most, with half of it in hand."""


def look(_config: SiteConfig) -> Iterator[Finding]:
    """Compare what is free with what the embedded policy needs."""
    free = psutil.virtual_memory().available
    text = f"{free / 2**30:.1f} GiB of memory are free"
    if free >= ENOUGH_BYTES:
        yield fine(text)
    else:
        yield Finding(State.WARNING, text, f"The embedded policy wants {ENOUGH_BYTES >> 30} GiB.")
