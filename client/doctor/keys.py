"""Rights of keys and folders: only their owner may read them."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

from client.doctor.check import Finding, State, fine, wrong
from client.site_config import SiteConfig

__all__ = ["look"]


def look(config: SiteConfig) -> Iterator[Finding]:
    """The state folder, and every key in it that was made already."""
    if not config.state.exists():
        yield Finding(
            State.WARNING,
            f"{config.state} is not made yet",
            "`bat-client run` makes it, with the keys, on its first start.",
        )
        return
    private = [config.state, config.key_file, config.state / "bank.key", config.state / "site.secret"]
    open_ones = [path for path in private if path.exists() and _mode(path) & 0o077]
    for path in open_ones:
        yield wrong(f"{path} is open to others (mode {_mode(path):04o})", f"Run chmod go-rwx {path}.")
    if not open_ones:
        yield fine("state folder and keys are their owner's alone")
    yield from _data(config.data)


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def _data(folder: Path) -> Iterator[Finding]:
    try:
        entries = any(folder.iterdir())
    except OSError as error:
        yield wrong(
            f"cannot read the image folder {folder}: {error.strerror}", "Check `data` in site.toml and its mount."
        )
        return
    if entries:
        yield fine(f"images are read from {folder}")
    else:
        yield Finding(State.WARNING, f"the image folder {folder} is empty", "Copy studies into it.")
