"""`bat-client bank stats`: what the Stage Bank holds, in numbers."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

from client.site_bank import open_site_bank
from client.site_command import Subparsers, add_site_command
from client.site_config import SiteConfig

__all__ = ["add"]


def add(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    """Register the command."""
    text = "count states, patients and bytes of the latest snapshot (JSON; for local eyes only)"
    add_site_command(subparsers, "stats", _run, text)


def _run(config: SiteConfig, _arguments: argparse.Namespace) -> int:
    with open_site_bank(config) as bank:
        print(json.dumps(asdict(bank.stats()), indent=2))
    return 0
