"""The staging folder: a study appears in it whole, a file appears in it whole.

`incoming/` holds what is being fetched, `studies/` the studies that are complete, one folder each, and `complete/` one
file for each of them that lists its instances. So a study that ingest has read may be deleted from `studies/`, and is
not fetched again. Only `studies/` is meant to be read by others.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Self

from common.errors import DataError

__all__ = ["Instance", "Staging"]

Instance = tuple[str, str]
"""UIDs of series and instance."""

_PART = ".part"


class Staging:
    """One writer's hold on a staging folder. All UIDs given must have the form of a UID.

    Args:
        folder: made where missing; its group may read it.

    Raises:
        DataError: another process writes to it, or it cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with self._writing():
            for part in (folder, *(folder / name for name in ("incoming", "studies", "complete"))):
                part.mkdir(mode=0o750, parents=True, exist_ok=True)
            self._lock = (folder / "lock").open("a")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            raise DataError("another bat-ingest writes here", where=str(folder), remedy="Wait for it.") from None
        for leftover in (folder / "incoming").rglob("*" + _PART):
            leftover.unlink()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.close()

    def staged(self, study: str) -> frozenset[Instance]:
        """What need not be fetched: instances of the study that are here, or were when it was complete."""
        found = {
            (file.parent.name, file.stem)
            for part in ("incoming", "studies")
            for file in (self.folder / part / study).glob("*/*.dcm")
        }
        marker = self._marker(study)
        if marker.exists():
            try:
                found.update((str(series), str(instance)) for series, instance in json.loads(marker.read_bytes()))
            except (OSError, ValueError, TypeError):
                marker.unlink()
        return frozenset(found)

    def is_complete(self, study: str) -> bool:
        """Whether the study was complete once, and nothing of it waits in `incoming/`."""
        return self._marker(study).exists() and not (self.folder / "incoming" / study).exists()

    def put(self, study: str, instance: Instance, fill: Callable[[IO[bytes], Path], None]) -> None:
        """Add an instance to a study that is being fetched.

        Args:
            study: UID.
            instance: UIDs.
            fill: writes the file; what it raises leaves nothing behind.

        Raises:
            DataError: the disk is full or not writable.
        """
        target = self.folder / "incoming" / study / instance[0] / f"{instance[1]}.dcm"
        with self._writing():
            target.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
            part = target.with_name(target.name + _PART)
            try:
                descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o640)
                with os.fdopen(descriptor, "r+b") as stream:
                    fill(stream, part)
                    stream.flush()
                    os.fsync(stream.fileno())
                part.replace(target)
            finally:
                part.unlink(missing_ok=True)

    def complete(self, study: str, instances: Set[Instance]) -> None:
        """Let a study appear, with everything that is in `incoming/` of it, and write down what it holds.

        Raises:
            DataError: the disk is full or not writable.
        """
        source, target = self.folder / "incoming" / study, self.folder / "studies" / study
        with self._writing():
            if source.is_dir() and not target.exists():
                source.rename(target)
            elif source.is_dir():  # the study has grown since
                for file in source.glob("*/*.dcm"):
                    place = target / file.parent.name
                    place.mkdir(mode=0o750, exist_ok=True)
                    file.replace(place / file.name)
                for folder in (*source.iterdir(), source):
                    folder.rmdir()
            _sync(self.folder / "studies")
            marker = self._marker(study)
            part = marker.with_name(marker.name + _PART)
            part.write_text(json.dumps(sorted(instances)), encoding="utf-8")
            part.replace(marker)
            _sync(marker.parent)

    def _marker(self, study: str) -> Path:
        return self.folder / "complete" / f"{study}.json"

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise DataError(
                f"cannot write: {error.strerror or error}", where=str(self.folder), remedy="Make room, or check rights."
            ) from error


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
