"""From the server to the staging folder, study by study."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pydicom

from stage_bank.dicom.quiet import quiet
from stage_bank.ingest.dicomweb.server import NotGiven, Server
from stage_bank.ingest.dicomweb.settings import Selection
from stage_bank.ingest.dicomweb.staging import Instance, Staging

__all__ = ["Pulled", "pull"]

_UIDS = ("StudyInstanceUID", "SeriesInstanceUID", "SOPInstanceUID")


@dataclass(frozen=True)
class Pulled:
    """What became of everything.

    Args:
        studies: that are complete.
        fetched: instances.
        present: instances that were there already.
        failures: what the server does not give, and why. UIDs may identify; the lines stay at the site.
    """

    studies: int
    fetched: int
    present: int
    failures: tuple[str, ...]

    def lines(self) -> list[str]:
        """A summary, then a line for each failure."""
        head = f"{self.studies} studies complete, {self.fetched} instances fetched, {self.present} already there"
        return [f"{head}, {len(self.failures)} failed", *self.failures]


def pull(server: Server, select: Selection, staging: Staging) -> Pulled:
    """Stage every matching study. One that misses an instance stays in `incoming/` until a later run has it all.

    Raises:
        DataError: the server is gone or refuses, or the disk is full; what is staged is kept.
        ConfigurationError: the list of patients cannot be used.
    """
    studies = fetched = present = 0
    failures: list[str] = []
    for study in _each(server, select, failures):
        staged = staging.staged(study)
        missing = 0
        wanted: set[Instance] = set()
        try:
            for series, modality in server.series(study):
                if not select.modalities or modality in select.modalities:
                    wanted.update((series, instance) for instance in server.instances(study, series))
        except NotGiven as error:
            failures.append(f"failed: study {study}: {error}")
            continue
        for instance in sorted(wanted - staged):
            try:
                _fetch(server, staging, study, instance)
                fetched += 1
            except NotGiven as error:
                missing += 1
                failures.append(f"failed: instance {instance[1]} of study {study}: {error}")
        present += len(wanted & staged)
        if wanted and not missing:
            studies += 1
            if not wanted <= staged or not staging.is_complete(study):
                staging.complete(study, wanted | staged)
    return Pulled(studies, fetched, present, tuple(failures))


def _each(server: Server, select: Selection, failures: list[str]) -> Iterator[str]:
    try:
        yield from server.studies(select)
    except NotGiven as error:
        failures.append(f"failed: search for studies: {error}")


def _fetch(server: Server, staging: Staging, study: str, instance: Instance) -> None:
    series, uid = instance

    def fill(stream: IO[bytes], path: Path) -> None:
        server.fetch(study, series, uid, stream, lambda: _is(path, (study, series, uid)))

    staging.put(study, instance, fill)


@quiet()
def _is(path: Path, uids: tuple[str, str, str]) -> bool:
    """Whether a file is DICOM and holds this instance."""
    try:
        dataset = pydicom.dcmread(path, stop_before_pixels=True, specific_tags=list(_UIDS))
        return tuple(str(dataset.get(name) or "") for name in _UIDS) == uids
    except Exception:  # the parser raises many types on hostile input; all mean that it is not
        return False
