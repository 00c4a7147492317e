"""`bat-ingest`: what runs beside the site's daemon, and alone may reach the PACS."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from common.errors import BatError
from stage_bank.ingest.dicomweb.pull import pull
from stage_bank.ingest.dicomweb.server import Server
from stage_bank.ingest.dicomweb.settings import Settings, load_settings
from stage_bank.ingest.dicomweb.staging import Staging

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Fetch studies; 0 when all are complete, 1 on a reported error or a missing instance, 2 on wrong usage."""
    parser = argparse.ArgumentParser(
        prog="bat-ingest", description="Fetch studies from one DICOMweb server into a staging folder."
    )
    parser.add_argument("settings", type=Path, metavar="INGEST.toml", help="which server, which studies, where to")
    parser.add_argument("--every", type=_seconds, metavar="S", help="go on: look again after S seconds until stopped")
    arguments = parser.parse_args(argv)
    try:
        settings = load_settings(arguments.settings)
        if arguments.every is None:
            return _once(settings)
        while True:
            _attempt(settings)
            time.sleep(arguments.every)
    except BatError as error:
        print(f"bat-ingest: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("bat-ingest: interrupted", file=sys.stderr)
        return 1


def _attempt(settings: Settings) -> None:
    try:
        _once(settings)
    except BatError as error:  # the server may be back later
        print(f"bat-ingest: {error}", file=sys.stderr, flush=True)


def _once(settings: Settings) -> int:
    with Staging(settings.staging) as staging:
        pulled = pull(Server(settings.server), settings.select, staging)
    print("\n".join(pulled.lines()), flush=True)
    return 1 if pulled.failures else 0


def _seconds(text: str) -> float:
    value = float(text)
    if not 1 <= value < 86_400:
        raise argparse.ArgumentTypeError("between 1 and 86400 seconds")
    return value


if __name__ == "__main__":
    sys.exit(main())
