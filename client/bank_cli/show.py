"""`bat-client bank show`: one state as a picture, for local eyes."""

from __future__ import annotations

import argparse
from pathlib import Path

from client.site_bank import latest_snapshot, open_site_bank
from client.site_command import Subparsers, add_site_command
from client.site_config import SiteConfig
from common.errors import BankError
from common.files import writing

__all__ = ["add"]


def add(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    """Register the command."""
    text = "draw a state as a PNG sheet: prompt, public inputs, reference; it shows patient images, keep it inside"
    command = add_site_command(subparsers, "show", _run, text)
    command.add_argument("state", help="state id, or the first digits of it")
    command.add_argument("--out", type=Path, default=Path("sheet.png"), help="PNG file to write (default: sheet.png)")


def _run(config: SiteConfig, arguments: argparse.Namespace) -> int:
    from stage_bank.sheet import draw_sheet

    with open_site_bank(config) as bank:
        rows = latest_snapshot(bank).rows
        fitting = [row.state_id for row in rows if row.state_id.startswith(arguments.state)]
        if len(fitting) != 1:
            raise BankError(
                f"{len(fitting)} states begin with {arguments.state}", remedy="Give an id of the latest snapshot."
            )
        sheet = draw_sheet(bank.state(fitting[0]))
    with writing("the sheet", arguments.out):
        sheet.save(arguments.out, format="PNG")
    print(arguments.out)
    return 0
