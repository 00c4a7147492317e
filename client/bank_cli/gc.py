"""`bat-client bank gc`: make the Stage Bank smaller by a policy."""

from __future__ import annotations

import argparse

from client.site_bank import open_site_bank
from client.site_command import Subparsers, add_site_command
from client.site_config import SiteConfig
from common.errors import ConfigurationError

__all__ = ["add"]


def add(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    """Register the command."""
    text = "remove old snapshots, states in none of those kept, and files left by an interrupted builder"
    command = add_site_command(subparsers, "gc", _run, text)
    command.add_argument("--keep", type=int, default=1, metavar="N", help="snapshots to keep (default: 1, the latest)")
    command.add_argument("--most", type=int, metavar="M", help="first retire the oldest states beyond M")


def _run(config: SiteConfig, arguments: argparse.Namespace) -> int:
    if arguments.keep < 1 or (arguments.most is not None and arguments.most < 1):
        raise ConfigurationError("--keep and --most are 1 or more", remedy="A bank without states cannot be used.")
    with open_site_bank(config, write=True) as bank:
        retired = 0 if arguments.most is None else bank.retire(arguments.most)
        latest = bank.snapshot()
        removed = bank.collect_garbage(arguments.keep)
    print(f"{retired} states retired, {removed} files removed; {len(latest.rows)} states in snapshot {latest.number}")
    return 0
