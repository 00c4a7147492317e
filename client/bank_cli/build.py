"""`bat-client bank build`: fill the Stage Bank now, in the foreground."""

from __future__ import annotations

import argparse

from client.site_command import Subparsers, add_site_command
from client.site_config import SiteConfig

__all__ = ["add"]


def add(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    """Register the command."""
    add_site_command(subparsers, "build", _run, "fill the Stage Bank from the DICOM folder; goes on where it stopped")


def _run(config: SiteConfig, _arguments: argparse.Namespace) -> int:
    from client.bank_builder import fill_bank
    from client.daemon import prepare_state_folder
    from client.progress import ProgressFile
    from common.signing import SigningKey
    from stage_bank.toolkit import open_toolkit_sandbox

    prepare_state_folder(config)
    sandbox = open_toolkit_sandbox(SigningKey.generate())
    try:
        filled = fill_bank(config, sandbox, ProgressFile(config.progress_file))
    finally:
        sandbox.close()
    if not filled.added:
        print(f"the bank is full already: {len(filled.snapshot.rows)} states")
        return 0
    snapshot = filled.snapshot
    patients = len({row.patient for row in snapshot.rows})
    for line in filled.report:
        print(line)
    print(
        f"bank filled: {len(snapshot.rows)} states of {patients} patients in snapshot {snapshot.number}, "
        f"{filled.rejected} kept out by the walls"
    )
    return 0
