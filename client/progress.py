"""Training progress for people at the site: JSON Lines in the state folder. Nothing of it leaves."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from common.canonical import Json

__all__ = ["ProgressFile"]


class ProgressFile:
    """Appends one record a line: `time_unix`, then what the caller gives (`state`, `run`, `round`, `step`, rewards …).

    Args:
        path: the file; made when missing.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()

    def __call__(self, record: Mapping[str, Json]) -> None:
        """Append one record; a full disk loses progress, never a round."""
        line = json.dumps({"time_unix": round(time.time(), 3), **record}, default=str)
        with self._lock:
            try:
                with self._path.open("a", encoding="utf-8") as stream:
                    stream.write(line + "\n")
            except OSError:
                return
