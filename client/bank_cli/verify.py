"""`bat-client bank verify`: does every state decrypt to what its name says."""

from __future__ import annotations

import argparse

from client.site_bank import open_site_bank
from client.site_command import Subparsers, add_site_command
from client.site_config import SiteConfig
from stage_bank.store.checkup import check_bank

__all__ = ["add"]


def add(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    """Register the command."""
    text = "decrypt every state and compare it with its name; exit status 1 when something is damaged"
    add_site_command(subparsers, "verify", _run, text)


def _run(config: SiteConfig, _arguments: argparse.Namespace) -> int:
    with open_site_bank(config) as bank:
        found = check_bank(bank)
    for line in found.damaged:
        print(f"damaged: {line}")
    leftovers = f", {found.leftovers} leftover files (`bat-client bank gc` removes them)" if found.leftovers else ""
    print(f"{found.states} states whole in {found.snapshots} snapshots, {len(found.damaged)} damaged{leftovers}")
    return 1 if found.damaged else 0
