"""Room on the disk that holds bank, ledger and releases."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

from client.doctor.check import Finding, State, fine, wrong
from client.site_config import SiteConfig

__all__ = ["look"]

STATE_BYTES = 200_000
"""What a state takes in the bank, generously."""

BESIDES_BYTES = 1 << 30
"""Pictures, ledger and releases."""


def look(config: SiteConfig) -> Iterator[Finding]:
    """Compare what is free with what the wanted bank takes."""
    folder = next((place for place in (config.state, *config.state.parents) if place.exists()), None)
    if folder is None:
        yield wrong(f"no disk for {config.state}", "Check `state` in site.toml and its mount.")
        return
    wanted = config.bank.states * STATE_BYTES + BESIDES_BYTES
    free = shutil.disk_usage(folder).free
    text = f"{free / 2**30:.1f} GiB are free under {folder}"
    if free >= wanted:
        yield fine(text)
    else:
        yield Finding(State.WARNING, text, f"A bank of {config.bank.states} states may take {wanted / 2**30:.1f} GiB.")
