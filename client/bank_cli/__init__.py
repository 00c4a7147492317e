"""`bat-client bank …`: one file a subcommand."""

from __future__ import annotations

import argparse

from client.bank_cli.build import add as add_build
from client.bank_cli.deidentify import add as add_deidentify
from client.bank_cli.gc import add as add_gc
from client.bank_cli.ingest import add as add_ingest
from client.bank_cli.rows import add as add_rows
from client.bank_cli.show import add as add_show
from client.bank_cli.stats import add as add_stats
from client.bank_cli.verify import add as add_verify
from client.site_command import Subparsers

__all__ = ["add_bank_commands"]


def add_bank_commands(commands: Subparsers[argparse.ArgumentParser]) -> None:
    """Register `bank` and everything under it."""
    text = "ingest, fill, look at, check and exchange the Stage Bank; de-identify a folder"
    bank = commands.add_parser("bank", help=text, description=text)
    parts = bank.add_subparsers(required=True, metavar="COMMAND")
    for add in (add_ingest, add_build, add_stats, add_verify, add_show, add_gc, add_rows, add_deidentify):
        add(parts)
