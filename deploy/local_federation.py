"""A federation on one machine: one SuperLink, and for every site a SuperNode with the launcher and a site daemon.

The processes are those of a deployment, on loopback and without TLS and containers.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path

from client.launcher import install
from client.site_config import SiteConfig
from common.errors import FederationError
from deploy.supervision import Component, Supervisor

__all__ = [
    "check_port",
    "environment",
    "free_port",
    "start_daemon",
    "start_superlink",
    "start_supernode",
    "wait_for_daemon",
]

LOWEST_PORT = 10_000
"""Below it lie the ports of well-known services."""

ATTEMPTS = 200
"""To find a free port by chance."""

READY_TIMEOUT_S = 60.0
"""How long a component has to answer after its start."""

TASK_POLL_S = "0.05"
"""Flower's SuperExec looks for a task this often; its default of 1 s is most of a short round."""


def environment(home: Path) -> dict[str, str]:
    """Variables of all components: nothing is reported or fetched, and neither threads nor heaps multiply.

    Args:
        home: Flower's folder (`FLWR_HOME`).
    """
    programs = Path(sys.executable).parent
    return {
        "PATH": f"{programs}{os.pathsep}{os.environ.get('PATH', '')}",
        "HOME": os.environ.get("HOME", str(home)),
        "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": TASK_POLL_S,
        "MALLOC_ARENA_MAX": "2",
        "OMP_NUM_THREADS": "1",
        "PYTHONUNBUFFERED": "1",
    }


def free_port() -> int:
    """A TCP port of loopback that is free, and that the kernel gives to nobody who asks for any port.

    A component binds its port seconds after it was chosen; meanwhile every connection on the machine takes a port of
    the kernel's own range, and might have taken this one.

    Raises:
        FederationError: hardly a port below that range is free.
    """
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    for _ in range(ATTEMPTS):
        port = LOWEST_PORT + secrets.randbelow(max(lowest - LOWEST_PORT, 1))
        with contextlib.suppress(FederationError):
            check_port(port)
            return port
    raise FederationError("no port is free", where="127.0.0.1", remedy="Stop what uses them, or choose a port.")


def check_port(port: int) -> None:
    """Make sure that a port of loopback can be listened on.

    Raises:
        FederationError: it is taken.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise FederationError(
                f"port {port} is taken", where="127.0.0.1", remedy="Stop what uses it, or choose another port."
            ) from error


def start_superlink(supervisor: Supervisor, port: int) -> Component:
    """Start the SuperLink and wait until it listens.

    Raises:
        FederationError: the port is taken, or it does not start.
    """
    check_port(port)
    command = ["flower-superlink", "--insecure", "--host", "127.0.0.1", "--port", str(port)]
    component = supervisor.start("superlink", [*command, "--disable-runtime-dependency-installation"])
    _wait(supervisor, "superlink", lambda: _listens(port))
    return component


def start_daemon(supervisor: Supervisor, config_file: Path, config: SiteConfig) -> Component:
    """Start a site's daemon; it may still be building its bank when this returns."""
    return supervisor.start(f"daemon-{config.site}", [sys.executable, "-m", "client.cli", "run", config_file])


def wait_for_daemon(
    supervisor: Supervisor,
    config: SiteConfig,
    timeout_s: float = READY_TIMEOUT_S,
    waiting: Callable[[], None] = lambda: None,
) -> None:
    """Wait until a daemon serves its relay socket.

    Args:
        supervisor: owner of the daemon.
        config: the site's settings.
        timeout_s: how long, in seconds.
        waiting: called several times a second meanwhile.

    Raises:
        FederationError: a component ended, or the daemon is not ready in time.
    """
    _wait(supervisor, f"daemon of {config.site}", lambda: _serves(config.relay_socket), timeout_s, waiting)


def start_supernode(
    supervisor: Supervisor, name: str, *, superlink: int, port: int, relay_socket: Path, programs: Path
) -> Component:
    """Start a site's SuperNode with the hospital's launcher first on its PATH.

    Args:
        supervisor: owner of the process.
        name: the site.
        superlink: port of the SuperLink (or of what stands before it).
        port: free port for the SuperNode's own API.
        relay_socket: the site daemon's socket.
        programs: folder for the launcher.
    """
    path = f"{install(programs)}{os.pathsep}{environment(programs)['PATH']}"
    command = ["flower-supernode", "--insecure", "--superlink", f"127.0.0.1:{superlink}", "--host", "127.0.0.1"]
    node = ["--port", str(port), "--node-config", f'relay-socket="{relay_socket}"']
    return supervisor.start(f"supernode-{name}", [*command, *node], PATH=path)


def _wait(
    supervisor: Supervisor,
    what: str,
    ready: Callable[[], bool],
    timeout_s: float = READY_TIMEOUT_S,
    waiting: Callable[[], None] = lambda: None,
) -> None:
    deadline = time.monotonic() + timeout_s
    while not ready():
        supervisor.check()
        waiting()
        if time.monotonic() > deadline:
            raise FederationError(f"{what} is not ready after {timeout_s:.0f} s", remedy="See the logs of the run.")
        time.sleep(0.1)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _serves(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(str(path)) == 0
