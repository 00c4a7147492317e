"""`bat-client`: what hospital staff type."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from client.bank_cli import add_bank_commands
from client.budget_cli import add_budget_commands
from client.doctor import add_doctor
from client.sandbox_cli import add_sandbox_commands
from client.site_command import add_site_command
from client.site_config import SiteConfig
from common.errors import BatError, ConfigurationError

if TYPE_CHECKING:
    from client.proto.service import AdminStub

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; 0 on success, 1 on a reported error, 2 on wrong usage."""
    arguments = _parser().parse_args(argv)
    try:
        status: int = arguments.run(arguments)
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
    add_site_command(
        commands, "run", _run, "serve this site until stopped (builds the Stage Bank first when there is none)"
    )
    add_bank_commands(commands)
    add_budget_commands(commands)
    add_sandbox_commands(commands)
    add_doctor(commands)
    add_site_command(commands, "status", _status, "ask the running daemon how it stands (JSON)")
    add_site_command(commands, "stop", _stop, "end the running daemon")
    add_site_command(
        commands, "key", _key, "print the site's public key for enrolment, making the key if there is none"
    )
    launcher = add_site_command(
        commands, "launcher", _launcher, "write the flwr-clientapp program that runs only the installed relay"
    )
    launcher.add_argument("folder", type=Path, metavar="FOLDER", help="put this folder first on the SuperNode's PATH")
    return parser


def _run(config: SiteConfig, _arguments: argparse.Namespace) -> int:
    from client.daemon import SiteDaemon, prepare_state_folder

    prepare_state_folder(config)
    SiteDaemon(config).run()
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
