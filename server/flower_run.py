"""Submitting a run to a SuperLink and following it to its end."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from common.errors import FederationError

__all__ = ["submit_and_follow"]

FLOWER_APP = Path(__file__).resolve().parents[1] / "deploy" / "flower-app"
"""What is shipped to the SuperLink; it holds no code."""

START_TIMEOUT_S = 120.0
"""How long the SuperLink has to start the ServerApp."""

POLL_S = 0.2


def submit_and_follow(
    run: Path,
    superlink: str,
    root_certificates: Path | None,
    report: Callable[[dict[str, Any]], None],
    app: Path = FLOWER_APP,
) -> dict[str, Any]:
    """Run the federation of a prepared run directory.

    Args:
        run: the run directory; the ServerApp writes to it, so it must be visible on the SuperLink's machine.
        superlink: address of the SuperLink's Control API, `host:port`.
        root_certificates: PEM file for TLS; without it the connection is in the clear, for loopback only.
        report: called with `state.json` whenever it changed.
        app: the Flower app to ship.

    Returns:
        The last state.

    Raises:
        FederationError: Flower refuses the run, or the ServerApp ends without a word.
    """
    with tempfile.TemporaryDirectory(prefix="bat-flwr-") as home:
        _write_connection(Path(home), superlink, root_certificates)
        run_id = _submit(Path(home), run, app)
        try:
            return _follow(run, report)
        except KeyboardInterrupt:
            _flwr(Path(home), "stop", run_id, "bat")
            raise


def _write_connection(home: Path, superlink: str, root_certificates: Path | None) -> None:
    security = (
        "insecure = true"
        if root_certificates is None
        else f"root-certificates = {json.dumps(str(root_certificates.resolve()))}"
    )
    (home / "config.toml").write_text(f"[superlink.bat]\naddress = {json.dumps(superlink)}\n{security}\n")


def _submit(home: Path, run: Path, app: Path) -> str:
    setting = f"directory={json.dumps(str(run.resolve()))}"
    done = _flwr(home, "run", str(app), "bat", "-c", setting, "--format", "json")
    try:
        answer = json.loads(done.stdout)
        if answer["success"]:
            return str(answer["run-id"])
    except (ValueError, KeyError, TypeError):
        pass
    said = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()
    raise FederationError(f"Flower did not take the run: {said[-1]}", remedy="Is the SuperLink running?")


def _flwr(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
    }
    program = Path(sys.executable).parent / "flwr"
    command: Sequence[str] = [str(program), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL)


def _follow(run: Path, report: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    deadline = time.monotonic() + START_TIMEOUT_S
    last: dict[str, Any] = {}
    while True:
        state = _state(run)
        if state != last:
            last = state
            report(state)
        if state.get("step") in ("complete", "failed"):
            return state
        if not state and time.monotonic() > deadline:
            raise FederationError("the ServerApp did not start", remedy="See the SuperLink's log.")
        if state and not _written_to(run / "ledger.jsonl") and _state(run) == state:
            raise FederationError("the ServerApp ended in the middle of the run", where=f"{run}, {state.get('step')}")
        time.sleep(POLL_S)


def _state(run: Path) -> dict[str, Any]:
    try:
        state: dict[str, Any] = json.loads((run / "state.json").read_bytes())
    except (OSError, ValueError):
        return {}
    return state


def _written_to(ledger: Path) -> bool:
    """Whether a process holds the ledger open for writing."""
    with ledger.open("rb") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        return False
