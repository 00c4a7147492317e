"""`bat-client`: what hospital staff type."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from client.site_config import SiteConfig, load_site_config
from common.errors import BatError, ConfigurationError

if TYPE_CHECKING:
    from client.proto.service import AdminStub

__all__ = ["main"]

Command = Callable[[SiteConfig, argparse.Namespace], int]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; 0 on success, 1 on a reported error, 2 on wrong usage."""
    arguments = _parser().parse_args(argv)
    try:
        status: int = arguments.run(load_site_config(arguments.site), arguments)
    except BatError as error:
        print(f"bat-client: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("bat-client: interrupted", file=sys.stderr)
        return 1
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bat-client",
        description="One hospital's side of the federation. Images stay here; only adapter updates leave.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add(commands, "run", _run, "serve this site until stopped (builds the Stage Bank first when there is none)")
    bank = commands.add_parser("bank", help="build the Stage Bank, or count what it holds")
    parts = bank.add_subparsers(required=True, metavar="COMMAND")
    _add(parts, "build", _bank_build, "make the Stage Bank from the DICOM folder and seal it")
    _add(parts, "stats", _bank_stats, "count states, patients and bytes of the Stage Bank (JSON; for local eyes only)")
    _add(commands, "status", _status, "ask the running daemon how it stands (JSON)")
    _add(commands, "stop", _stop, "end the running daemon")
    _add(commands, "key", _key, "print the site's public key for enrolment, making the key if there is none")
    launcher = _add(
        commands, "launcher", _launcher, "write the flwr-clientapp program that runs only the installed relay"
    )
    launcher.add_argument("folder", type=Path, help="put this folder first on the SuperNode's PATH")
    return parser


def _add(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, run: Command, text: str
) -> argparse.ArgumentParser:
    command = commands.add_parser(name, help=text, description=text)
    command.add_argument("site", type=Path, metavar="SITE.toml", help="the site's settings")
    command.set_defaults(run=run)
    return command


def _run(config: SiteConfig, _arguments: argparse.Namespace) -> int:
    from client.daemon import SiteDaemon, prepare_state_folder

    prepare_state_folder(config)
    SiteDaemon(config).run()
    return 0


def _bank_build(config: SiteConfig, _arguments: argparse.Namespace) -> int:
    from client.bank_builder import build_bank
    from client.daemon import prepare_state_folder
    from client.progress import ProgressFile
    from common.signing import SigningKey
    from stage_bank.toolkit import open_toolkit_sandbox

    prepare_state_folder(config)
    sandbox = open_toolkit_sandbox(SigningKey.generate())
    try:
        built = build_bank(config, sandbox, ProgressFile(config.progress_file))
    finally:
        sandbox.close()
    print("\n".join(built.report))
    print(f"bank sealed: {built.states} states of {built.patients} patients, {built.rejected} kept out by the wall")
    return 0


def _bank_stats(config: SiteConfig, _arguments: argparse.Namespace) -> int:
    from dataclasses import asdict

    from stage_bank.bank import StageBank

    with StageBank.open(config.bank_folder, config.bank_key_file) as bank:
        print(json.dumps(asdict(bank.stats()), indent=2))
    return 0


def _status(config: SiteConfig, _arguments: argparse.Namespace) -> int:
    from client.proto import relay_pb2 as pb

    with _admin(config) as admin:
        print(json.dumps(json.loads(admin.status(pb.StatusRequest(), timeout=10).json), indent=2))
    return 0


def _stop(config: SiteConfig, _arguments: argparse.Namespace) -> int:
    from client.proto import relay_pb2 as pb

    with _admin(config) as admin:
        admin.shutdown(pb.ShutdownRequest(), timeout=10)
    return 0


def _key(config: SiteConfig, _arguments: argparse.Namespace) -> int:
    from client.daemon import prepare_state_folder
    from common.signing import SigningKey

    prepare_state_folder(config)
    print(SigningKey.load_or_create(config.key_file).public.hex)
    return 0


def _launcher(_config: SiteConfig, arguments: argparse.Namespace) -> int:
    from client.launcher import install

    print(install(arguments.folder))
    return 0


@contextmanager
def _admin(config: SiteConfig) -> Iterator[AdminStub]:
    import grpc

    from client.proto.service import AdminStub

    with grpc.insecure_channel(f"unix:{config.admin_socket}") as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout=3)
            yield AdminStub(channel)
        except (grpc.RpcError, grpc.FutureTimeoutError) as error:
            raise ConfigurationError(
                "the site's daemon does not answer", where=str(config.admin_socket), remedy="Start `bat-client run`."
            ) from error


if __name__ == "__main__":
    sys.exit(main())
