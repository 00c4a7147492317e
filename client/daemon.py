"""The site daemon: the hospital's long-lived, trusted process. It owns images, bank, model and keys.

It listens on two Unix sockets and needs no network. Ending it (SIGTERM, SIGINT, the admin socket) stops a round under
way, removes the sockets and leaves a ledger that the next start continues.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from importlib.metadata import version
from pathlib import Path
from types import FrameType

import grpc

from client.airlock import Airlock
from client.grpo_learner import GrpoLearner
from client.history import SiteHistory
from client.progress import ProgressFile
from client.proto.service import add_admin, add_relay
from client.rounds import RoundDesk
from client.services import AdminService, RelayService, socket_server
from client.site_config import SiteConfig
from common.base_model import read_base_model
from common.canonical import Json
from common.errors import ConfigurationError
from common.ledger import Ledger, read_ledger
from common.messages import SiteDescription
from common.signing import SigningKey, VerifyKey

__all__ = ["SiteDaemon", "prepare_state_folder"]

STOP_TIMEOUT_S = 5.0
"""How long a round under way gets to notice that it was cancelled; it looks before every forward pass."""


def prepare_state_folder(config: SiteConfig) -> None:
    """Make the state folder, which only its owner may enter, and the socket folder.

    Raises:
        ConfigurationError: a folder cannot be made.
    """
    try:
        config.state.mkdir(parents=True, exist_ok=True)
        config.state.chmod(0o700)
        config.relay_socket.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(
            "cannot make the state folder", where=str(error.filename), remedy=f"{error.strerror}."
        ) from error


class SiteDaemon:
    """One site.

    Args:
        config: the site's settings; its state folder must have been prepared.

    Raises:
        BatError: keys, ledger, model or bank cannot be used.
    """

    def __init__(self, config: SiteConfig) -> None:
        self._config = config
        self._key = SigningKey.load_or_create(config.key_file)
        self._started = time.time()
        self._stop = threading.Event()
        self._ledger = Ledger(config.ledger_file, self._key)
        self._history = SiteHistory.of(read_ledger(config.ledger_file))
        self._progress = ProgressFile(config.progress_file)
        self._learner = GrpoLearner(config, read_base_model(config.model), self._ledger)
        self._airlock = Airlock(self._ledger, self._history, self._key, config.outbox, config.policy.max_update_bytes)
        self._desk = RoundDesk(
            site=config.site,
            server=VerifyKey.from_hex(config.server.public_key),
            policy=config.policy,
            learner=self._learner,
            airlock=self._airlock,
            ledger=self._ledger,
            history=self._history,
            progress=self._progress,
        )

    def run(self) -> None:
        """Serve until asked to stop; call it from the main thread."""
        try:
            self._learner.open(self._progress)
        except BaseException:
            self._learner.close()
            raise
        # Not before: a bank whose making is interrupted is made anew, so until here a signal may simply end us.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        servers = self._serve()
        self._ledger.append("daemon_started", {"software": _software()})
        self._progress({"state": "ready"})
        print(f"site {self._config.site} ready, key {self._key.public.hex}", flush=True)
        try:
            while not self._stop.wait(1.0):
                pass
        finally:
            self._close(servers)

    def _serve(self) -> list[grpc.Server]:
        config = self._config
        relay = RelayService(self._describe, self._desk, self._airlock, config.policy.max_update_bytes)
        admin = AdminService(self._status, self._stop.set)
        return [
            socket_server(config.relay_socket, config.sockets.relay_mode, lambda server: add_relay(server, relay)),
            socket_server(config.admin_socket, 0o600, lambda server: add_admin(server, admin), workers=2),
        ]

    def _close(self, servers: list[grpc.Server]) -> None:
        ended = self._desk.stop(STOP_TIMEOUT_S)
        for server in servers:
            server.stop(grace=1.0).wait()
        for socket in (self._config.relay_socket, self._config.admin_socket):
            Path(socket).unlink(missing_ok=True)
        self._learner.close()
        self._ledger.append("daemon_stopped", {"round_ended": ended})
        self._ledger.close()
        self._progress({"state": "stopped"})
        if not ended:
            # A training step that does not end would keep the interpreter alive; everything that matters is on disk.
            os._exit(0)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._stop.set()

    def _describe(self) -> SiteDescription:
        return SiteDescription(
            site=self._config.site,
            public_key=self._key.public.hex,
            base_model=self._learner.base_model,
            tracks=self._config.policy.tracks,
            software=_software(),
        )

    def _status(self) -> dict[str, Json]:
        job = self._desk.job
        return {
            "site": self._config.site,
            "public_key": self._key.public.hex,
            "uptime_s": round(time.time() - self._started, 1),
            "base_model": self._learner.base_model,
            "ledger_head": self._ledger.head,
            "releases": len(self._history.released),
            "bank_states": self._learner.states,
            "state": job.state if job else "idle",
            "run": job.prescription.run if job else None,
            "round": job.prescription.round if job else None,
        }


def _software() -> str:
    return f"federated-bat {version('federated-bat')}"
