"""`bat-client bank ingest`: images and references into the encrypted store, now or whenever new ones lie still."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from client.site_command import Subparsers, add_site_command
from client.site_config import SiteConfig
from common.ending import end_in_order
from common.errors import DataError

__all__ = ["add"]


def add(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    """Register the command."""
    text = "read DICOM, ZIPs and NIfTI into the encrypted image store; names every file that was left out, and why"
    command = add_site_command(subparsers, "ingest", _run, text)
    command.add_argument("folder", type=Path, nargs="?", metavar="DIR", help="only read (default: the site's data)")
    command.add_argument("--map", type=Path, metavar="CSV", help="kind,value,unit: files, studies, patients to units")
    command.add_argument(
        "--labels", type=Path, action="append", default=[], metavar="FILE", help="CSV or JSON of boxes"
    )
    command.add_argument("--body-part", default="", metavar="TERM", help="what NIfTI volumes show, such as CHEST")
    command.add_argument("--report", type=Path, help="JSON report (default: ingest_report.json in the state folder)")
    command.add_argument("--watch", action="store_true", help="go on: poll the folder until stopped")
    command.add_argument("--interval", type=_seconds, default=30.0, metavar="S", help="between two looks (default 30)")
    command.add_argument("--quiet-for", type=_seconds, default=60.0, metavar="S", help="without a change (default 60)")


def _run(config: SiteConfig, arguments: argparse.Namespace) -> int:
    from client.daemon import prepare_state_folder
    from stage_bank.ingest.watching import quiet_states

    end_in_order()
    prepare_state_folder(config)
    folder: Path = arguments.folder or config.data
    if not arguments.watch:
        _once(config, folder, arguments)
        return 0
    for _ in quiet_states(folder, arguments.interval, arguments.quiet_for):
        try:
            _once(config, folder, arguments)
        except DataError as error:  # the next study may be better
            print(f"bat-client: {error}", file=sys.stderr, flush=True)
    return 0


def _once(config: SiteConfig, folder: Path, arguments: argparse.Namespace) -> None:
    from client.site_images import ingest_images
    from stage_bank.ingest import SiteMap

    done = ingest_images(
        config,
        folder,
        site_map=None if arguments.map is None else SiteMap.load(arguments.map),
        labels=arguments.labels,
        body_part=arguments.body_part,
        report=arguments.report,
    )
    print("\n".join(done.report.lines()))
    print(f"{done.added} pictures added; the store holds {done.patients} patients", flush=True)


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value < 86_400:
        raise argparse.ArgumentTypeError("between 0 and 86400 seconds")
    return value
