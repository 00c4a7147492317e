"""Whether this process could reach a network: in a deployment the daemon has none."""

from __future__ import annotations

import os
from collections.abc import Iterator

from client.doctor.check import Finding, State, fine
from client.site_config import SiteConfig

__all__ = ["look"]

INTERFACES = "/sys/class/net"


def look(_config: SiteConfig) -> Iterator[Finding]:
    """Name the network interfaces that this process sees, besides loopback."""
    try:
        seen = sorted(name for name in os.listdir(INTERFACES) if name != "lo")
    except OSError as error:
        yield Finding(State.WARNING, f"cannot list network interfaces: {error.strerror}", "Mount /sys read-only.")
        return
    if seen:
        yield Finding(
            State.WARNING,
            f"this process sees a network: {', '.join(seen)}",
            "Run the daemon without one (--network=none): it needs its two Unix sockets only.",
        )
    else:
        yield fine("no network in reach")
