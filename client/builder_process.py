"""The daemon's hand on the bank builder: starts it, hears it, starts it again when it dies, ends it."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any

import common.errors
from client.learner import Progress
from client.site_config import SiteConfig
from common.canonical import Json
from common.errors import BankError, BatError

__all__ = ["BuilderProcess"]

Announce = Callable[[Mapping[str, Json]], None]

LONGEST_PAUSE_S = 60.0


class BuilderProcess:
    """Fills the site's bank in a process of its own until it is full.

    Args:
        config: the site's settings.
        progress: takes the builder's progress records; for local eyes only.
        announce: takes number, digest, states and patients of every new snapshot.
    """

    def __init__(self, config: SiteConfig, progress: Progress, announce: Announce) -> None:
        self._config = config
        self._progress = progress
        self._announce = announce
        self._stop = threading.Event()
        self._settled = threading.Event()
        self._error: BatError | None = None
        self._full = False
        self._process: subprocess.Popen[str] | None = None
        self._thread = threading.Thread(target=self._supervise, name="bank-builder", daemon=True)

    def start(self) -> None:
        """Start filling."""
        self._thread.start()

    def wait_for_snapshot(self) -> None:
        """Return once there is a first snapshot.

        Raises:
            BatError: what kept the builder from making one.
        """
        self._settled.wait()
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """End the builder, and wait until it has ended."""
        self._stop.set()
        process = self._process
        if process is not None and process.stdin is not None:
            process.stdin.close()
        if self._thread.is_alive():
            self._thread.join()

    def _supervise(self) -> None:
        try:
            self._keep_running()
        except (OSError, BatError) as error:  # it cannot be started, or the ledger refuses its snapshots
            self._fail(error if isinstance(error, BatError) else BankError(f"the bank builder cannot run: {error}"))
        finally:
            if not self._settled.is_set():
                self._error = self._error or BankError("the bank builder was stopped before the first snapshot")
                self._settled.set()

    def _keep_running(self) -> None:
        pause = 1.0
        while not self._stop.is_set():
            status = self._run()
            if self._full or self._error is not None or self._stop.is_set():
                break
            self._progress({"state": f"bank builder ended with status {status}, starting again in {pause:.0f} s"})
            self._stop.wait(pause)
            pause = min(2 * pause, LONGEST_PAUSE_S)

    def _run(self) -> int:
        """One life of the builder; its exit status."""
        self._process = process = subprocess.Popen(
            [sys.executable, "-I", "-m", "client.builder"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert process.stdin is not None
        assert process.stdout is not None
        if self._stop.is_set():  # `close` may have come before this process was there to be ended
            process.stdin.close()
        with contextlib.suppress(OSError, ValueError):  # the process or its input is gone; its exit status tells
            process.stdin.write(self._config.model_dump_json() + "\n")
            process.stdin.flush()
        for line in process.stdout:
            said = json.loads(line)
            self._hear(said["kind"], said["body"])
        return process.wait()

    def _hear(self, kind: str, body: dict[str, Any]) -> None:
        if kind == "progress":
            self._progress(body)
        elif kind == "snapshot":
            self._announce(body)
            self._settled.set()
        elif kind == "filled":
            self._full = True
            self._settled.set()
            print("".join(f"{line}\n" for line in body["report"]), end="", flush=True)
        elif kind == "error":
            error: type[BatError] = getattr(common.errors, body["kind"])
            self._fail(error(body["what"], where=body["where"], remedy=body["remedy"]))

    def _fail(self, error: BatError) -> None:
        self._error = error
        self._progress({"state": f"bank builder: {error}"})
        self._settled.set()
