"""The hospital's own `flwr-clientapp`: runs the installed relay and never the code a server ships.

Flower's SuperNode starts the program `flwr-clientapp` from its PATH for every message, and Flower's own program unpacks
and imports whatever app the server sent. `install` writes a script of that name; its folder goes first on the
SuperNode's PATH. The script runs Python isolated (`-I`: no PYTHONPATH, no working directory), skips unpacking, and
answers with `client.relay` as installed by the hospital.
"""

from __future__ import annotations

import importlib
import shlex
import sys
from pathlib import Path

__all__ = ["PROGRAM", "install", "main"]

PROGRAM = "flwr-clientapp"


def install(folder: Path) -> Path:
    """Write the `flwr-clientapp` script into `folder`.

    Returns:
        The folder, to be put first on the SuperNode's PATH.
    """
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / PROGRAM
    script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -I -m client.launcher "$@"\n')
    script.chmod(0o755)
    return folder


def main() -> None:
    """Run one Flower message with the installed relay."""
    from flwr.supernode.cli import flwr_clientapp

    from client.relay import app

    run_clientapp = importlib.import_module("flwr.supernode.runtime.run_clientapp")

    def installed_relay(*_args: object, **_options: object) -> object:
        return lambda *_shipped: app

    def nothing(*_args: object, **_options: object) -> None:
        """Takes the place of unpacking the shipped app and installing what it asks for."""

    vars(run_clientapp).update(
        install_from_fab=nothing, install_app_dependencies=nothing, get_load_client_app_fn=installed_relay
    )
    flwr_clientapp()


if __name__ == "__main__":
    main()
