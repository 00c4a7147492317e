"""The settings of `bat-ingest`: which server, which studies, where to."""

from __future__ import annotations

from datetime import date
from ipaddress import ip_address
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from common.settings_file import read_settings

__all__ = ["Selection", "ServerSettings", "Settings", "load_settings"]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ServerSettings(_Strict):
    """The one server that is ever asked."""

    url: str
    """Root of its DICOMweb service, such as `https://pacs.example.org/dicom-web`."""
    ca_file: Path | None = None
    """Certificates that may sign the server's, as PEM; the system's own when not set."""
    client_certificate: Path | None = None
    """Certificate to show to the server, as PEM."""
    client_key: Path | None = None
    """Its private key, as PEM without a passphrase."""
    credentials_file: Path | None = None
    """One line, `user:password` or `Bearer TOKEN`; mode 0600."""
    credentials_command: tuple[str, ...] = ()
    """Program and arguments that print such a line."""
    plain_http: bool = False
    """Whether `http` is allowed to another machine than this one."""
    timeout: float = Field(default=60.0, gt=0)
    """Seconds without a byte until a request counts as failed."""
    attempts: int = Field(default=4, ge=1, le=20)
    """How often a request is tried; waits double from one second."""
    max_instance_bytes: int = Field(default=4 << 30, gt=0)
    """Larger instances are given up."""

    @field_validator("url")
    @classmethod
    def _plain(cls, url: str) -> str:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ValueError("not an http or https address")
        if parts.username is not None or parts.password is not None:
            raise ValueError("credentials do not belong into the address")
        return url.rstrip("/")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        parts = urlsplit(self.url)
        if parts.scheme == "http" and not self.plain_http and not _is_here(str(parts.hostname)):
            raise ValueError("http to another machine needs plain_http = true")
        if self.credentials_file is not None and self.credentials_command:
            raise ValueError("either credentials_file or credentials_command")
        if self.client_key is not None and self.client_certificate is None:
            raise ValueError("client_key needs client_certificate")
        return self


class Selection(_Strict):
    """Which studies are fetched; everything that is set must hold."""

    modalities: tuple[str, ...] = ()
    """Series of these modalities only, in capitals; `SEG` and `RTSTRUCT` bring references. All when empty."""
    since: date | None = None
    """Study date, from this day on."""
    until: date | None = None
    """Study date, up to and with this day."""
    patients: Path | None = None
    """File with one patient ID a line; all patients when not set."""


class Settings(_Strict):
    """Everything `bat-ingest` is told. Relative paths start at the folder of the file."""

    staging: Path
    """Folder to write to; `bat-client bank ingest --watch` then reads `studies` in it."""
    server: ServerSettings
    select: Selection = Selection()


def load_settings(path: Path) -> Settings:
    """Read a settings file.

    Raises:
        ConfigurationError: missing, not TOML, or a setting that is unknown, missing or cannot be used.
    """
    return _anchored(read_settings(path, Settings), path.parent)


def _anchored(settings: Settings, folder: Path) -> Settings:
    files = ("ca_file", "client_certificate", "client_key", "credentials_file")
    given = {name: folder / value for name in files if (value := getattr(settings.server, name)) is not None}
    server = settings.server.model_copy(update=given)
    select = settings.select
    if select.patients is not None:
        select = select.model_copy(update={"patients": folder / select.patients})
    return settings.model_copy(update={"staging": folder / settings.staging, "server": server, "select": select})


def _is_here(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
