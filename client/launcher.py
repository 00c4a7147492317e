"""The hospital's own `flwr-clientapp`: runs the installed relay and never the code a server ships.

Flower's SuperNode starts the program `flwr-clientapp` from its PATH for every message, and Flower's own program unpacks
and imports whatever app the server sent. `install` writes a script of that name; its folder goes first on the
SuperNode's PATH. The script runs Python isolated (`-I`: no PYTHONPATH, no working directory), skips unpacking, and
answers with `client.relay` as installed by the hospital.
"""

from __future__ import annotations

import argparse
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
    """Run one Flower message with the installed relay.

    Takes the arguments of Flower's own program and goes straight to its runtime: the way through Flower's command line
    would load its web server as well, which is a third of a short round.
    """
    from flwr.common.args import add_args_flwr_app_common, try_obtain_flwr_app_token
    from flwr.supercore.tls import validate_and_resolve_root_certificates

    from client.relay import app

    parser = argparse.ArgumentParser(prog=PROGRAM, description="Run one Flower message with the installed relay.")
    parser.add_argument("--runtime-api-address", required=True, help="the SuperNode's Runtime API")
    add_args_flwr_app_common(parser=parser)
    arguments = parser.parse_args()

    def installed_relay(*_args: object, **_options: object) -> object:
        return lambda *_shipped: app

    def nothing(*_args: object, **_options: object) -> None:
        """Takes the place of unpacking the shipped app."""

    runtime = importlib.import_module("flwr.supernode.runtime.run_clientapp")
    vars(runtime).update(install_from_fab=nothing, get_load_client_app_fn=installed_relay)
    runtime.run_clientapp(
        runtime_api_address=arguments.runtime_api_address,
        token=try_obtain_flwr_app_token(arguments),
        insecure=arguments.insecure,
        certificates=validate_and_resolve_root_certificates(arguments.root_certificates, arguments.insecure),
        parent_pid=arguments.parent_pid,
        runtime_dependency_install=False,
    )


if __name__ == "__main__":
    main()
