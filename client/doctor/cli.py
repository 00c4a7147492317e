"""Run every check and print a table; exit status 1 when something does not hold."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator

from client.doctor.check import Check, Finding, State, wrong
from client.doctor.checks import CHECKS
from client.site_command import Subparsers, add_site_command
from client.site_config import SiteConfig

__all__ = ["add_doctor"]

SIGNS = {State.GOOD: "ok  ", State.WARNING: "note", State.BAD: "BAD "}


def add_doctor(commands: Subparsers[argparse.ArgumentParser]) -> None:
    """Register the command."""
    text = "check sandbox, network, keys, model, memory and disk; exit status 1 when something does not hold"
    add_site_command(commands, "doctor", _run, text).add_argument("--json", action="store_true", help="for machines")


def _run(config: SiteConfig, arguments: argparse.Namespace) -> int:
    worst = State.GOOD
    rows = []
    for check in CHECKS:
        for finding in _findings(check, config):
            worst = State.BAD if finding.state is State.BAD else worst
            if arguments.json:
                rows.append({"check": check.name, **finding.__dict__})
            else:
                print(f"{SIGNS[finding.state]}  {check.name:<17} {finding.what}", flush=True)
                if finding.remedy:
                    print(f"{'':<23} → {finding.remedy}", flush=True)
    if arguments.json:
        print(json.dumps(rows, indent=2))
    return int(worst is State.BAD)


def _findings(check: Check, config: SiteConfig) -> Iterator[Finding]:
    """What a check finds; one that breaks is itself a finding, so that the others still run."""
    try:
        yield from check.look(config)
    except Exception as error:
        yield wrong(f"the check itself failed: {type(error).__name__}", "Report it, with the version of bat-client.")
