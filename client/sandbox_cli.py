"""`bat-client sandbox exec` and `verify`: one snippet run exactly as in a rollout, and the check of its receipt."""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import replace
from pathlib import Path

from client.site_command import Subparsers
from common.canonical import Json, digest_bytes
from common.errors import ConfigurationError, SigningError
from common.sandbox import Language, Limits, Record
from common.sandbox.mirror import read_folder, write_back
from common.signing import SigningKey, VerifyKey

__all__ = ["add_sandbox_commands"]

LONGEST_CODE = 1 << 20
"""Most bytes of a snippet."""
LONGEST_RECEIPT = 16 << 20
"""Most bytes of a printed receipt: the longest snippet as JSON escapes, its output and its files."""


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
    command.add_argument(
        "--key-file",
        type=Path,
        metavar="K",
        help="sign with this key, made when missing (default: a new key each time)",
    )
    command.set_defaults(run=_execute)
    text = "check that a printed receipt is whole, unaltered and signed; exit status 1 when it is not"
    command = parts.add_parser("verify", help="check a printed receipt", description=text)
    command.add_argument("receipt", type=Path, metavar="FILE", help="what `sandbox exec` printed")
    command.add_argument(
        "--key", metavar="HEX", help="public key that must have signed it (default: the one the receipt names)"
    )
    command.set_defaults(run=_verify)


def _execute(arguments: argparse.Namespace) -> int:
    from stage_bank.toolkit import open_toolkit_sandbox

    code = _text(arguments.code_file, "snippet", LONGEST_CODE)
    usual = Limits()
    longer = arguments.timeout > usual.wall_s
    limits = replace(usual, wall_s=arguments.timeout, cpu_s=math.ceil(arguments.timeout) if longer else usual.cpu_s)
    before = read_folder(arguments.workspace, limits.workspace_bytes)
    key = SigningKey.generate() if arguments.key_file is None else SigningKey.load_or_create(arguments.key_file)
    sandbox = open_toolkit_sandbox(key, limits=limits, backend=arguments.backend)
    try:
        session = sandbox.open(before)
        try:
            receipt = session.execute(arguments.language, code)
            record, after = session.seal(), session.files()
        finally:
            session.close()
    finally:
        sandbox.close()
    write_back(arguments.workspace, {path: after.get(path) for path in receipt.changed})
    print(json.dumps(_document(record, key.public), indent=2))
    return 0


def _document(record: Record, key: VerifyKey) -> dict[str, Json]:
    """The one receipt's fields, the links around it, and what follows from them: digests and the key to check with."""
    (receipt,) = record.receipts
    return {
        **receipt.__dict__,
        "opening": record.opening.__dict__,
        "closing": record.closing.__dict__,
        "digest": receipt.digest,
        "code_sha256": digest_bytes(receipt.code.encode()),
        "public_key": key.hex,
    }


_AROUND = ("opening", "closing", "digest", "code_sha256", "public_key")


def _verify(arguments: argparse.Namespace) -> int:
    where = str(arguments.receipt)
    try:
        document = json.loads(_text(arguments.receipt, "receipt", LONGEST_RECEIPT))
    except (ValueError, RecursionError) as error:
        raise SigningError("the receipt is not JSON", where=where) from error
    if not isinstance(document, dict) or not isinstance(document.get("public_key"), str):
        raise SigningError("not a receipt that names its public key", where=where)
    receipt = {name: value for name, value in document.items() if name not in _AROUND}
    links = {name: document.get(name) for name in ("opening", "closing")}
    record = Record.from_json({**links, "receipts": [receipt]})
    key = VerifyKey.from_hex(arguments.key or document["public_key"])
    record.verify(key)
    if document != json.loads(json.dumps(_document(record, key))):
        raise SigningError("a digest or the key beside the signed receipt does not belong to it", where=where)
    known = "the given key" if arguments.key else "the key that it names, whoever holds that"
    print(f"whole and unaltered since {known} signed it: {key.hex}")
    return 0


def _text(path: Path, what: str, longest: int) -> str:
    try:
        with path.open("rb") as stream:
            data = stream.read(longest + 1)
        if len(data) > longest:
            raise ConfigurationError(f"a {what} has at most {longest} bytes", where=str(path))
        return data.decode("utf-8")
    except OSError as error:
        raise ConfigurationError(f"cannot read the {what}", where=str(path), remedy=f"{error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"the {what} is not UTF-8", where=str(path)) from error


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0.05 <= seconds <= 3600:
        raise argparse.ArgumentTypeError("from 0.05 to 3600")
    return seconds
