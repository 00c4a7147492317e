"""`bat-audit`: re-check what a run or a site has recorded, with nothing but its folder."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from common.audit import LEDGER_FILE, verify_folder
from common.errors import BatError
from common.ledger import read_ledger
from common.signing import VerifyKey

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; 0 when everything holds, 1 when something does not, 2 on wrong usage."""
    arguments = _parser().parse_args(argv)
    try:
        arguments.run_command(arguments)
    except BatError as error:
        print(f"bat-audit: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bat-audit", description="Check the signed records of a federation run or of a site."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    text = "check every signature, the whole chain, and the files that the ledger names"
    verify = commands.add_parser("verify", help=text, description=f"{text[0].upper()}{text[1:]}.")
    verify.add_argument("folder", type=Path, metavar="FOLDER", help="a run directory, or a site's state folder")
    verify.add_argument("--key", metavar="HEX", help="the key that must have signed (default: the one in the folder)")
    verify.add_argument("--head", metavar="DIGEST", help="a ledger head known from elsewhere; finds truncation")
    verify.set_defaults(run_command=_verify)
    show = commands.add_parser("show", help="list the events of a ledger", description="List the events of a ledger.")
    show.add_argument("folder", type=Path, metavar="FOLDER", help="a run directory, or a site's state folder")
    show.set_defaults(run_command=_show)
    return parser


def _verify(arguments: argparse.Namespace) -> None:
    key = VerifyKey.from_hex(arguments.key) if arguments.key else None
    print(verify_folder(arguments.folder, key, arguments.head))


def _show(arguments: argparse.Namespace) -> None:
    for event in read_ledger(arguments.folder / LEDGER_FILE):
        print(f"{event.sequence:5d}  {event.time_unix:14.3f}  {event.kind:24s}  {json.dumps(event.body)[:160]}")


if __name__ == "__main__":
    sys.exit(main())
