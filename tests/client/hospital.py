"""A site's folder with its settings, and the real `bat-client` on it."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import tomli_w

from client.site_config import SiteConfig, load_site_config
from tests.e2e.federation import tiny_model

__all__ = ["Hospital", "until"]


class Hospital:
    """A folder with a site's settings."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.file = root / "site.toml"
        self._started: list[subprocess.Popen[str]] = []
        tiny_model(root / "model")
        self.write()

    def write(self, states: int = 0, data: Path | None = None, **bank: object) -> SiteConfig:
        settings = {
            "site": "north",
            "data": str(data or self.root / "dicom"),
            "state": str(self.root / "state"),
            "model": str(self.root / "model"),
            "server": {"public_key": "ab" * 32},
            "bank": {"states": states, **bank},
        }
        self.file.write_text(tomli_w.dumps(settings))
        return load_site_config(self.file)

    def start(self, *command: str) -> subprocess.Popen[str]:
        words = [sys.executable, "-m", "client.cli", *(command or ("run",)), str(self.file)]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self._started.append(process)
        return process

    def close(self) -> None:
        """End what a failed test left running."""
        for process in self._started:
            if process.poll() is None:
                process.kill()
                process.wait()


def until(condition: Callable[[], object], timeout_s: float = 30.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
