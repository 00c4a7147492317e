"""`site.toml`: the one file in which a hospital says where its data lies and what may leave."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from client.privacy.limits import PrivacyLimits
from client.site_policy import SitePolicy
from common.errors import ConfigurationError
from common.messages import Digest, Name
from common.settings_file import read_settings
from stage_bank.store.vault import Vault

__all__ = ["BankSettings", "ServerTrust", "SiteConfig", "SocketSettings", "load_site_config"]

MAXIMUM_SOCKET_PATH_BYTES = 100
"""Unix socket paths hold about 107 bytes on Linux."""


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ServerTrust(_Settings):
    """The one server this site listens to."""

    public_key: Digest
    """Ed25519 key as 64 hex digits, received out of band."""
    fingerprints: Path | None = None
    """The server's signed fingerprints of its held-out suites, received when enrolling."""


class SocketSettings(_Settings):
    """Where the two local sockets are made."""

    folder: Path | None = None
    """Folder of `relay.sock` and `admin.sock`; the state folder when not set. Keep it short."""
    relay_mode: Annotated[int, BeforeValidator(lambda text: int(text, 8) if isinstance(text, str) else text)] = 0o600
    """Rights of the relay socket, as octal text: "0660" lets the SuperNode's group in."""


class BankSettings(_Settings):
    """How the Stage Bank is made from the site's images."""

    states: int = Field(default=126, ge=0, le=100_000)
    """States to admit; the source grid has 126. With 0 there is no bank: only rounds of zero steps are answered."""
    seed: int = Field(default=1, ge=0)
    first_snapshot: int = Field(default=126, ge=1)
    """States from which on rounds are answered, if `states` is not smaller; the bank goes on growing beside them."""
    nice: int = Field(default=10, ge=0, le=19)
    """How far the builder's process stands back for others, as in nice(1)."""
    workers: int = Field(default=2, ge=1, le=64)
    """Conditions that the builder fabricates under at once."""
    key_command: tuple[str, ...] = ()
    """Program and arguments that print the bank's key as 64 hex digits; a key file in the state folder when empty."""


class SiteConfig(_Settings):
    """Everything a site's daemon is told. Relative paths start at the folder of the file."""

    site: Name
    data: Path
    """Folder with the site's images; only read, and by the builder only while the image store is empty."""
    state: Path
    """Folder for keys, bank, ledger, releases and progress; made with mode 0700."""
    model: Path
    """Folder of the approved base model."""
    server: ServerTrust
    policy: SitePolicy = SitePolicy()
    sockets: SocketSettings = SocketSettings()
    bank: BankSettings = BankSettings()
    privacy: PrivacyLimits | None = None
    """The bank's budget under differential privacy; it permits no round yet, `bat-client budget show` reads it."""

    @property
    def relay_socket(self) -> Path:
        """Path of the relay socket."""
        return (self.sockets.folder or self.state) / "relay.sock"

    @property
    def admin_socket(self) -> Path:
        """Path of the admin socket."""
        return (self.sockets.folder or self.state) / "admin.sock"

    @property
    def key_file(self) -> Path:
        """The site's private signing key."""
        return self.state / "site.key"

    @property
    def bank_folder(self) -> Path:
        """The Stage Bank."""
        return self.state / "bank"

    @property
    def bank_key_file(self) -> Path:
        """The key that the bank is encrypted with, where no command gives it."""
        return self.state / "bank.key"

    def open_vault(self, *, create: bool = False) -> Vault:
        """The bank's key, from the command or the file that holds it.

        Args:
            create: whether to make the key file when there is none.

        Raises:
            BankError: there is no usable key.
        """
        if self.bank.key_command:
            return Vault.from_command(self.bank.key_command)
        return Vault.load(self.bank_key_file, create=create)

    @property
    def budget_file(self) -> Path:
        """The bank's privacy budget."""
        return self.state / "privacy" / "budget.jsonl"

    @property
    def ledger_file(self) -> Path:
        """The site's ledger."""
        return self.state / "ledger.jsonl"

    @property
    def progress_file(self) -> Path:
        """Training progress for local eyes only."""
        return self.state / "progress.jsonl"

    @property
    def outbox(self) -> Path:
        """Signed releases, kept so that they can be sent again unchanged."""
        return self.state / "releases"


def load_site_config(path: Path) -> SiteConfig:
    """Read `site.toml`.

    Raises:
        ConfigurationError: the file is missing, not TOML, a setting is unknown or out of range, or a socket path is too
            long.
    """
    config = read_settings(path, SiteConfig)
    config = _resolved(config, path.resolve().parent)
    for socket in (config.relay_socket, config.admin_socket):
        if len(str(socket).encode()) > MAXIMUM_SOCKET_PATH_BYTES:
            raise ConfigurationError(
                "the socket path is too long for a Unix socket", where=str(socket), remedy="Set sockets.folder shorter."
            )
    return config


def _resolved(config: SiteConfig, base: Path) -> SiteConfig:
    folder = config.sockets.folder
    sockets = config.sockets.model_copy(update={"folder": base / folder}) if folder is not None else config.sockets
    paths = {name: base / getattr(config, name) for name in ("data", "state", "model")}
    prints = config.server.fingerprints
    server = config.server.model_copy(update={"fingerprints": base / prints}) if prints is not None else config.server
    return config.model_copy(update={**paths, "sockets": sockets, "server": server})
