"""`bat-client bank export` and `bank import`: states and rounds in the published rows, without their content."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from client.site_bank import latest_snapshot, open_site_bank
from client.site_command import Subparsers, add_site_command
from client.site_config import SiteConfig
from common.errors import DataError
from common.files import writing
from common.stages import Stage, Track
from stage_bank.materialise import BATCHES, materialise
from stage_bank.materialise.published import read_round, read_sources, round_lines, round_manifest, source_lines
from stage_bank.store import Snapshot

__all__ = ["add"]

SOURCES, ROUND, MANIFEST = "sources.jsonl", "round.jsonl", "manifest.json"


def add(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    """Register both commands."""
    text = "write source rows, a round and its manifest (JSON Lines; no files, references, conditions or patients)"
    export = add_site_command(subparsers, "export", _export, text)
    export.add_argument("folder", type=Path, metavar="FOLDER", help="where to write; made if missing")
    export.add_argument(
        "--target",
        type=Stage,
        choices=list(Stage),
        default=Stage.VALIDATE,
        help="stage practised most: S1 plan, S2 set up, S3 validate, S4 infer, S5 submit (default: S3)",
    )
    export.add_argument("--round-id", default="export", help="names the round; the same name gives the same round")
    export.add_argument("--batches", type=int, default=BATCHES, help=f"batches of 8 rows (default: {BATCHES})")
    text = "check exported rows against their manifest and this bank, and count what of them can be practised here"
    add_site_command(subparsers, "import", _import, text).add_argument(
        "folder", type=Path, metavar="FOLDER", help="what export wrote"
    )


def _export(config: SiteConfig, arguments: argparse.Namespace) -> int:
    snapshot = _latest(config)
    rows = materialise(
        snapshot.rows,
        round_id=arguments.round_id,
        target_stage=arguments.target,
        tracks=list(Track),
        batches=arguments.batches,
    )
    sources, train = source_lines(snapshot.rows), round_lines(rows, arguments.target)
    manifest = round_manifest(arguments.round_id, arguments.target, rows, (SOURCES, sources), (ROUND, train))
    with writing("the rows", arguments.folder):
        arguments.folder.mkdir(parents=True, exist_ok=True)
        for name, content in ((SOURCES, sources), (ROUND, train), (MANIFEST, json.dumps(manifest, indent=1).encode())):
            (arguments.folder / name).write_bytes(content)
    print(f"{len(snapshot.rows)} source rows and {len(rows)} round rows in {arguments.folder}")
    return 0


def _import(config: SiteConfig, arguments: argparse.Namespace) -> int:
    snapshot = _latest(config)
    try:
        sources, train, manifest = ((arguments.folder / name).read_bytes() for name in (SOURCES, ROUND, MANIFEST))
        fields = json.loads(manifest)
    except (OSError, ValueError, RecursionError) as error:
        raise DataError("cannot read the exported rows", where=str(arguments.folder)) from error
    if not isinstance(fields, dict):
        raise DataError("the manifest is not a JSON object", where=str(arguments.folder / MANIFEST))
    known = {row.state_id for row in snapshot.rows}
    here = sum(name in known for name, *_ in read_sources(sources))
    rows = read_round(train, fields, snapshot.rows)
    print(f"{here} of the source states are in this bank; all {len(rows)} rows of the round can be practised here")
    return 0


def _latest(config: SiteConfig) -> Snapshot:
    with open_site_bank(config) as bank:
        return latest_snapshot(bank)
