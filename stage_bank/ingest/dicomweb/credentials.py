"""Who we are to the server: a line from a private file or from a program."""

from __future__ import annotations

import subprocess

from requests import PreparedRequest
from requests.auth import AuthBase, HTTPBasicAuth

from common.errors import ConfigurationError
from stage_bank.ingest.dicomweb.settings import ServerSettings

__all__ = ["credentials"]

_COMMAND_SECONDS = 30


class _Bearer(AuthBase):
    def __init__(self, token: str) -> None:
        self._token = token

    def __call__(self, request: PreparedRequest) -> PreparedRequest:
        request.headers["Authorization"] = f"Bearer {self._token}"
        return request


def credentials(settings: ServerSettings) -> AuthBase | None:
    """What to send along with every request; `None` when nothing is set.

    Raises:
        ConfigurationError: the file is missing or others may read it, the program fails, or the line has no such form.
    """
    if settings.credentials_command:
        return _parse(_from_command(settings.credentials_command), settings.credentials_command[0])
    if settings.credentials_file is None:
        return None
    path = settings.credentials_file
    try:
        if path.stat().st_mode & 0o077:
            raise ConfigurationError("others may read the credentials", where=str(path), remedy="chmod 600 it.")
        return _parse(path.read_text(encoding="utf-8"), str(path))
    except OSError as error:
        raise ConfigurationError(f"cannot read the credentials: {error.strerror}", where=str(path)) from error
    except UnicodeDecodeError:
        raise ConfigurationError("the credentials are not text", where=str(path)) from None


def _from_command(command: tuple[str, ...]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, timeout=_COMMAND_SECONDS, check=True, text=True)
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        raise ConfigurationError("the program for the credentials fails", where=command[0]) from None
    return done.stdout


def _parse(text: str, where: str) -> AuthBase:
    line = text.strip()
    kind, _, token = line.partition(" ")
    if kind == "Bearer" and token.strip() and token.isascii() and token.isprintable():
        return _Bearer(token.strip())
    user, colon, password = line.partition(":")
    if not colon or not user or not line.isprintable():
        raise ConfigurationError("credentials are user:password or Bearer TOKEN, in one line", where=where)
    return HTTPBasicAuth(user.encode(), password.encode())
