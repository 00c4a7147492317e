"""`bat-client sandbox exec`: one snippet run exactly as in a rollout, for people and scripts."""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import replace
from pathlib import Path

from client.site_command import Subparsers
from common.canonical import Json, digest_bytes
from common.errors import ConfigurationError
from common.sandbox import Language, Limits, Receipt
from common.sandbox.mirror import read_folder, write_back
from common.signing import SigningKey

__all__ = ["add_sandbox_commands"]

LONGEST_CODE = 1 << 20
"""Most bytes of a snippet."""


def add_sandbox_commands(commands: Subparsers[argparse.ArgumentParser]) -> None:
    """Register `sandbox` and what is under it."""
    text = "run code as agents run it"
    parts = commands.add_parser("sandbox", help=text, description=text).add_subparsers(required=True, metavar="COMMAND")
    text = (
        "run one snippet as a rollout would and print its signed receipt (JSON); "
        "the folder's files go into the workspace, what changed comes back"
    )
    command = parts.add_parser("exec", help="run one snippet and print its receipt", description=text)
    command.add_argument("--language", type=Language, choices=list(Language), required=True)
    command.add_argument("--code-file", type=Path, required=True, metavar="F", help="the snippet, UTF-8")
    command.add_argument("--workspace", type=Path, required=True, metavar="DIR", help="an existing folder")
    command.add_argument(
        "--timeout", type=_seconds, default=Limits().wall_s, metavar="S", help="seconds (default: %(default)s)"
    )
    command.add_argument("--backend", choices=("auto", "bwrap", "landlock"), default="auto", help="default: auto")
    command.set_defaults(run=_execute)


def _execute(arguments: argparse.Namespace) -> int:
    from stage_bank.toolkit import open_toolkit_sandbox

    code = _code(arguments.code_file)
    usual = Limits()
    longer = arguments.timeout > usual.wall_s
    limits = replace(usual, wall_s=arguments.timeout, cpu_s=math.ceil(arguments.timeout) if longer else usual.cpu_s)
    before = read_folder(arguments.workspace, limits.workspace_bytes)
    key = SigningKey.generate()
    sandbox = open_toolkit_sandbox(key, limits=limits, backend=arguments.backend)
    try:
        session = sandbox.open(before)
        try:
            receipt = session.execute(arguments.language, code)
            after = session.files()
        finally:
            session.close()
    finally:
        sandbox.close()
    write_back(arguments.workspace, {path: after.get(path) for path in receipt.changed})
    print(json.dumps(_document(receipt, before, key, sandbox.name), indent=2))
    return 0


def _document(receipt: Receipt, before: dict[str, bytes], key: SigningKey, backend: str) -> dict[str, Json]:
    """The receipt's fields, and beside what is signed: its digest, the key to check it with, changes sorted by kind."""
    there = {path for path, digest in receipt.changed.items() if digest is not None}
    return {
        **receipt.signed_part(),
        "signature": receipt.signature,
        "digest": receipt.digest,
        "public_key": key.public.hex,
        "backend": backend,
        "code_sha256": digest_bytes(receipt.code.encode()),
        "created": sorted(there - before.keys()),
        "modified": sorted(there & before.keys()),
        "deleted": sorted(receipt.changed.keys() - there),
    }


def _code(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            data = stream.read(LONGEST_CODE + 1)
        if len(data) > LONGEST_CODE:
            raise ConfigurationError(f"a snippet has at most {LONGEST_CODE} bytes", where=str(path))
        return data.decode("utf-8")
    except OSError as error:
        raise ConfigurationError("cannot read the snippet", where=str(path), remedy=f"{error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError("the snippet is not UTF-8", where=str(path)) from error


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0.05 <= seconds <= 3600:
        raise argparse.ArgumentTypeError("from 0.05 to 3600")
    return seconds
