"""`bat-client bank deidentify IN OUT`: a folder without its patients, for a privacy officer to look at."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from common.ending import end_in_order
from common.errors import ConfigurationError
from common.files import write_durably, writing

__all__ = ["add"]

SOME_REFUSED = 3
"""Exit status when files were refused; they are in the report."""

_TEXT = "write de-identified copies of DICOM files, and a report of every file; exit status 3 when some were refused"


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command. It needs no site settings: `run` takes the parsed arguments alone."""
    command = subparsers.add_parser("deidentify", help="write a de-identified copy of a folder", description=_TEXT)
    command.add_argument("source", type=Path, metavar="IN", help="folder with DICOM files; only read")
    command.add_argument("target", type=Path, metavar="OUT", help="new or empty folder outside IN")
    command.add_argument(
        "--report", type=Path, required=True, help="JSON file; it names input files, so keep it inside"
    )
    command.add_argument("--key-file", type=Path, required=True, help="32 secret bytes; made with mode 0600 if absent")
    command.add_argument(
        "--profile",
        choices=("modified-dates", "safe-harbor"),
        default="modified-dates",
        help="modified-dates moves dates per patient (default); safe-harbor drops them and draws random UIDs",
    )
    command.add_argument("--table", type=Path, help="random UIDs of safe-harbor (default: KEY_FILE.uids)")
    command.add_argument("--quick", action="store_true", help="search only images likely to show text, not every one")
    command.add_argument("--keep-faces", action="store_true", help="leave head volumes as they are: the site opts in")
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """De-identify; 0 when every file was written, 3 when some were refused.

    Raises:
        BatError: nothing could be done at all.
    """
    from stage_bank.deidentify import FaceCheck, Options, ProfileName, TextCheck, open_profile
    from stage_bank.deidentify.folder import check_folders, deidentify_folder
    from stage_bank.store import read_key

    end_in_order()
    check_folders(arguments.source, arguments.target)
    table = arguments.table or arguments.key_file.with_name(arguments.key_file.name + ".uids")
    for secret in (arguments.report, arguments.key_file, table):
        _keep_apart(secret, arguments.source, arguments.target)
    profile = open_profile(ProfileName(arguments.profile), read_key("the key", arguments.key_file, create=True), table)
    options = Options(
        text=TextCheck.LIKELY if arguments.quick else TextCheck.ALL,
        faces=FaceCheck.KEEP if arguments.keep_faces else FaceCheck.REMOVE,
    )
    report = deidentify_folder(arguments.source, arguments.target, profile, options)
    with writing("the report", arguments.report):
        arguments.report.parent.mkdir(parents=True, exist_ok=True)
        write_durably(arguments.report, (json.dumps(report.to_json(), indent=2, ensure_ascii=True) + "\n").encode())
    print("\n".join(report.lines()))
    return 0 if report.complete else SOME_REFUSED


def _keep_apart(path: Path, *folders: Path) -> None:
    if any(path.resolve().is_relative_to(folder.resolve()) for folder in folders):
        raise ConfigurationError(
            "report, key and table belong outside both folders", where=str(path), remedy="Name another place."
        )
