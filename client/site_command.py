"""Subcommands of `bat-client` that take a site's settings as their first argument."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from client.site_config import SiteConfig, load_site_config

__all__ = ["Subparsers", "add_site_command"]

Subparsers = argparse._SubParsersAction  # argparse has no public name for what `add_subparsers` returns


def add_site_command(
    subparsers: Subparsers[argparse.ArgumentParser],
    name: str,
    run: Callable[[SiteConfig, argparse.Namespace], int],
    text: str,
) -> argparse.ArgumentParser:
    """Register a command; the parser's `run` takes the parsed arguments and reads the settings first.

    Args:
        subparsers: where to register.
        name: as typed.
        run: takes settings and arguments, returns the exit status.
        text: what it does, in a line.
    """
    command = subparsers.add_parser(name, help=text, description=text)
    command.add_argument("site", type=Path, metavar="SITE.toml", help="the site's settings")
    command.set_defaults(run=lambda arguments: run(load_site_config(arguments.site), arguments))
    return command
